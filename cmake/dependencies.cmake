# System libraries, all from Debian 12's or Ubuntu 24.04's own packages; ./run installs them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(SQLite3 REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_library(TOROID_MINIZIP_LIBRARY minizip REQUIRED)
find_library(TOROID_ZLIB_LIBRARY z REQUIRED)
set(TOROID_MINIZIP ${TOROID_MINIZIP_LIBRARY} ${TOROID_ZLIB_LIBRARY})
find_path(TOROID_HIREDIS_INCLUDE hiredis/hiredis.h REQUIRED)
find_library(TOROID_HIREDIS hiredis REQUIRED)
find_path(TOROID_CURL_INCLUDE curl/curl.h REQUIRED)  # the library itself is opened by name, see src/cache/remote/remote_http.cpp
