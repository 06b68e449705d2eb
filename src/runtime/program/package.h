// A compiled program as one file, `compile -o FILE.so`: the library, the weights, and what it takes to tell that both are whole and fit the
// machine before any of their code runs. A shared library's constructors are code, so all is checked before the library is opened.
//
//   library | zeros | weights, each at a multiple of 64, zeros between | description | footer
//
//   description: the instruction sets of its levels as a sized text, the most demanding first, "avx512,avx2" (base/machine/isa.h) |
//                offset of the weights | their size, zeros included |
//                checksum of the library and the zeros behind it | checksum of each 1 MiB of the weights
//   footer:      size of the description | checksum of all that is before this one in description and footer | "TOROIDW2"
//
// Numbers are those of base/file/framing.h, a checksum is two of them (base/file/checksum.h). Every byte of the file is under one checksum,
// or is that, or is the magic word. Checksums find damage; against somebody who makes a file to deceive there is a signature, behind all this
// (signature.h).
//
// The weights stay where they are, mapped; loading reads them once, all cores at a time, unless it is told not to check them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/file/mapped_file.h"
#include "base/machine/isa.h"
#include "base/span.h"
#include "runtime/pool/pool.h"
#include "runtime/program/signature.h"

namespace toroid {

// Weights may also be a file of their own, one without a library. It is found beside the package by this extension: m.so, m.weights.
inline constexpr const char* kWeightsExtension = ".weights";

struct Package {
  std::string path;
  std::string library;  // empty where the library is a file of its own
  Span<const std::byte> weights;
  Isa isa;                            // the least that it needs
  std::string levels;                 // all, as "avx512, avx2"
  std::shared_ptr<const void> owner;  // keeps `weights` alive

  // The bytes of a weight that follows those that were taken, `offset` bytes so far. Throws Error{InvalidInput} where the file has no such.
  Span<const std::byte> take_weight(uint64_t& offset, std::string_view name, int64_t bytes) const;
};

// Of a file that is opened, beside its description and its library, which always are.
struct PackageChecks {
  Trust* trust = nullptr;   // not null: that a key of these has signed all of it
  bool are_weights = true;  // checksums of weights, which reads all of them
};

// Throws Error{InvalidInput} for a file that is not one, of another version, damaged or not trusted, Error{Environment} for one whose
// instructions this machine lacks.
Package open_package(const std::string& path, RuntimePool& pool, const PackageChecks& checks = {});
// One that a program has in its memory, for as long as it runs; `name` is for errors.
Package open_package(std::string_view bytes, std::string name, RuntimePool& pool, const PackageChecks& checks = {});
// The same for any machine.
Package verify_package(const std::string& path, RuntimePool& pool, Trust* trust = nullptr);

// Throws Error{Environment} when it cannot be written, or a mapped file that holds constants was changed meanwhile.
void write_package(const std::string& path, std::string_view library, Span<const Span<const std::byte>> constants, Span<const Isa> levels);
inline void write_package(const std::string& path, std::string_view library, Span<const Span<const std::byte>> constants, const Isa& isa) {
  write_package(path, library, constants, Span(&isa, 1));
}

}  // namespace toroid
