// std::terminate() as packages have it: the C++ library's prints the exception that nobody caught, and brings a parser of names for that, as
// large as a small package. Nothing of the run side throws beyond its interface.
#include <cstdlib>

namespace __gnu_cxx {

__attribute__((visibility("hidden"))) void __verbose_terminate_handler() { std::abort(); }

}  // namespace __gnu_cxx
