# Cross-building for aarch64 Linux with Debian's gcc-aarch64-linux-gnu:
#
#   tools/sysroot build-arm64/root
#   cmake -B build-arm64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DPFW_SYSROOT=$PWD/build-arm64/root
#
# Where qemu-user-static is installed, ctest runs the unit tests with it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

set(PFW_SYSROOT "" CACHE PATH "Root directory of an aarch64 system: libc, zlib, cmocka and headers")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PFW_SYSROOT)
if(PFW_SYSROOT)
	set(CMAKE_SYSROOT ${PFW_SYSROOT})
	set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
	set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
	set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
	set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

find_program(PFW_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(PFW_QEMU)
	set(CMAKE_CROSSCOMPILING_EMULATOR ${PFW_QEMU} -L "${PFW_SYSROOT}/")
endif()
