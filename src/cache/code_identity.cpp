#include "cache/code_identity.h"

#include <elf.h>
#include <link.h>

#include <cstring>

#include "base/file/mapped_file.h"
#include "support/hash.h"

namespace toroid {
namespace {

struct Module {
  uintptr_t address;  // of something inside the module that is sought
  std::string build_id;
  std::string path;
};

// Notes are a sequence of {name size, contents size, type}, name and contents, each padded to 4 bytes.
std::string build_id_in(const char* note, size_t size) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, note, sizeof header);
    const size_t name_size = (header.n_namesz + 3u) & ~size_t{3}, contents_size = (header.n_descsz + 3u) & ~size_t{3};
    const size_t whole = sizeof header + name_size + contents_size;
    if (whole > size) break;
    const char* contents = note + sizeof header + name_size;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(note + sizeof header, "GNU", 4) == 0) {
      std::string hex;
      for (uint32_t i = 0; i < header.n_descsz; ++i) {
        hex += "0123456789abcdef"[static_cast<unsigned char>(contents[i]) >> 4];
        hex += "0123456789abcdef"[static_cast<unsigned char>(contents[i]) & 15];
      }
      return hex;
    }
    note += whole;
    size -= whole;
  }
  return "";
}

int inspect(dl_phdr_info* info, size_t, void* data) {
  auto& module = *static_cast<Module*>(data);
  bool holds_address = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && module.address >= start && module.address < start + segment.p_memsz) {
      holds_address = true;
    }
  }
  if (!holds_address) return 0;
  module.path = info->dlpi_name != nullptr && *info->dlpi_name != '\0' ? info->dlpi_name : "/proc/self/exe";
  for (int i = 0; i < info->dlpi_phnum && module.build_id.empty(); ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    module.build_id = build_id_in(reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  return 1;
}

}  // namespace

std::string code_identity() {
  static const std::string identity = [] {
    Module module{reinterpret_cast<uintptr_t>(&inspect), "", "/proc/self/exe"};
    ::dl_iterate_phdr(inspect, &module);
    if (!module.build_id.empty()) return module.build_id;
    return sha256(MappedFile(module.path).bytes()).hex();
  }();
  return identity;
}

}  // namespace toroid
