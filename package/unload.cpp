// What a package gives back when it is unloaded: the memory that its C++ library keeps for exceptions when there is no other, 72 KB. A
// process that opens and closes packages would lose as much each time.
namespace __gnu_cxx {

void __freeres();  // the C++ library's

}  // namespace __gnu_cxx

__attribute__((destructor)) static void unload() { __gnu_cxx::__freeres(); }
