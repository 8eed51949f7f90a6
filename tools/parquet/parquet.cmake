# pfw-parquet: the only part in C++, so that nothing else needs that compiler or Arrow's C++ library.
enable_language(CXX)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
find_package(Parquet CONFIG QUIET)
if(NOT Parquet_FOUND)
	# A wheel of pyarrow has headers and libraries, but no CMake package.
	foreach(name Parquet Arrow)
		string(TOLOWER ${name} word)
		file(GLOB library ${PFW_ARROW_DIR}/lib${word}.so ${PFW_ARROW_DIR}/lib${word}.so.* ${PFW_ARROW_DIR}/lib/lib${word}.so)
		if(NOT PFW_ARROW_DIR OR NOT library)
			message(FATAL_ERROR "PFW_PARQUET=ON and Arrow's C++ library is missing: no CMake package Parquet "
				"(CMAKE_PREFIX_PATH), no lib${word}.so in PFW_ARROW_DIR='${PFW_ARROW_DIR}'")
		endif()
		list(GET library 0 library)
		add_library(${name}::${word}_shared UNKNOWN IMPORTED)
		set_target_properties(${name}::${word}_shared PROPERTIES IMPORTED_LOCATION ${library}
			INTERFACE_INCLUDE_DIRECTORIES ${PFW_ARROW_DIR}/include)
	endforeach()
endif()
add_executable(pfw_parquet tools/parquet/parquet.cc)
set_target_properties(pfw_parquet PROPERTIES OUTPUT_NAME pfw-parquet
	INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" INSTALL_RPATH_USE_LINK_PATH ON)
target_link_libraries(pfw_parquet PRIVATE pfw_read_shared Parquet::parquet_shared Arrow::arrow_shared)
install(TARGETS pfw_parquet RUNTIME DESTINATION bin)
