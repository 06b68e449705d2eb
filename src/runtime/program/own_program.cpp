#include "runtime/program/own_program.h"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "base/affixes.h"
#include "base/error.h"
#include "base/fail.h"
#include "base/file/file.h"
#include "base/format.h"

namespace toroid {
namespace {

// A part of the library in memory that nothing writes to.
struct Segment {
  const char* data;
  size_t offset, size;  // in the file
};
struct Search {
  uintptr_t address;
  std::string name;
  std::vector<Segment> segments;
};

int visit(dl_phdr_info* object, size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  std::vector<Segment> segments;
  bool is_there = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + header.p_vaddr;
    if (header.p_type != PT_LOAD) continue;
    is_there = is_there || search.address - begin < header.p_memsz;
    if ((header.p_flags & PF_W) == 0) segments.push_back({reinterpret_cast<const char*>(begin), header.p_offset, header.p_filesz});
  }
  if (!is_there) return 0;
  search.name = object->dlpi_name;
  search.segments = std::move(segments);
  return 1;
}

Search search_of(const ToroidLevels& levels) {
  Search search{reinterpret_cast<uintptr_t>(&levels), {}, {}};
  ::dl_iterate_phdr(visit, &search);
  return search;
}

// The loader keeps a path as it was given, which another working folder makes mean something else; the system knows it whole.
std::string path_in_maps(uintptr_t address) {
  const std::string maps = read_file("/proc/self/maps");
  for (std::string_view rest = maps; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    // "7f5e1c000000-7f5e1c021000 r-xp …"
    uintptr_t ends[2] = {};
    size_t place = 0;
    for (const char letter : line) {
      const int digit = letter >= '0' && letter <= '9' ? letter - '0' : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
      if (digit < 0 && ++place == std::size(ends)) break;
      if (digit >= 0) ends[place] = ends[place] << 4 | static_cast<uintptr_t>(digit);
    }
    const size_t slash = line.find('/');
    if (address >= ends[0] && address < ends[1] && slash != line.npos) return std::string(line.substr(slash));
  }
  return "";
}

}  // namespace

OwnProgram own_program() {
  if (toroid_own_levels == nullptr)
    fail(ErrorKind::Unsupported, Help{"give the path of a package"}, "this library holds no program of its own");
  Search search = search_of(*toroid_own_levels);
  if (!starts_with(search.name, "/")) search.name = path_in_maps(search.address);
  if (search.name.empty())
    fail(ErrorKind::Environment, Help{"load it by its path"}, "the file of the package that is loaded cannot be found");
  return {*toroid_own_levels, search.name};
}

void refuse_other_code(const OwnProgram& own, std::string_view library) {
  for (const Segment& segment : search_of(own.levels).segments) {
    if (segment.offset <= library.size() && segment.size <= library.size() - segment.offset &&
        std::memcmp(segment.data, library.data() + segment.offset, segment.size) == 0)
      continue;
    fail(ErrorKind::Environment, Help{"load it anew, and replace packages by renaming"},
         "{} is another file now than the one that was loaded", own.path);
  }
}

}  // namespace toroid
