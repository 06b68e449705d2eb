// Precompiled for every folder of the compiler.
#pragma once
#include "base/pch.h"

#include <fmt/format.h>
