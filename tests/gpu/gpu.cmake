# A driver, a runtime and a CUPTI that need no GPU, held to NVIDIA's headers of two generations
# (PFW_CUDA_DIR, which tests/gpu/fetch fills).

# NVTX needs no stand-in: it is a header.
find_path(NVTX_INCLUDE nvtx3/nvToolsExt.h
	HINTS ${PFW_CUDA_DIR}/13/include ${PFW_CUDA_DIR}/12/include /usr/local/cuda/include)
mark_as_advanced(NVTX_INCLUDE)

function(pfw_standin major)
	set(directory ${PROJECT_BINARY_DIR}/tests/standin${major})
	configure_file(tests/gpu/standin/libcupti.map standin${major}.map @ONLY)
	foreach(name cuda cudart cupti)
		set(target standin_${name}${major})
		add_library(${target} SHARED tests/gpu/standin/${name}.c)
		target_include_directories(${target} SYSTEM PRIVATE ${PFW_CUDA_DIR}/${major}/include)
		set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${major}
			LIBRARY_OUTPUT_DIRECTORY ${directory} C_VISIBILITY_PRESET default)
		target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
	endforeach()
	set_target_properties(standin_cuda${major} PROPERTIES SOVERSION 1)
	target_link_libraries(standin_cudart${major} PRIVATE standin_cuda${major})
	target_link_libraries(standin_cupti${major} PRIVATE standin_cuda${major})
	target_link_options(standin_cupti${major} PRIVATE
		-Wl,--version-script=${PROJECT_BINARY_DIR}/standin${major}.map)
	# The second also uses CUPTI itself, as torch.profiler does.
	foreach(name gpu_target${major} gpu_client${major})
		add_executable(${name} tests/gpu/target.c)
		set_target_properties(${name} PROPERTIES
			RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
		target_include_directories(${name} PRIVATE include)
		target_include_directories(${name} SYSTEM PRIVATE ${PFW_CUDA_DIR}/${major}/include
			$<$<BOOL:${NVTX_INCLUDE}>:${NVTX_INCLUDE}>)
		target_link_libraries(${name} PRIVATE standin_cudart${major} standin_cuda${major}
			Threads::Threads ${CMAKE_DL_LIBS})
	endforeach()
	# Reads files while its kernels run.
	add_executable(combined${major} tests/e2e/combined/combined.c)
	set_target_properties(combined${major} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
	target_include_directories(combined${major} SYSTEM PRIVATE ${PFW_CUDA_DIR}/${major}/include)
	target_link_libraries(combined${major} PRIVATE standin_cudart${major} Threads::Threads)
	target_compile_definitions(gpu_client${major} PRIVATE PFW_TARGET_IS_CLIENT=1)
	target_link_libraries(gpu_client${major} PRIVATE standin_cupti${major})
endfunction()

add_executable(gpu_iterate tests/gpu/iterate.c)
set_target_properties(gpu_iterate PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(gpu_iterate PRIVATE pfw_core)

add_library(xla_cuda_looker MODULE tests/gpu/looker.c)
set_target_properties(xla_cuda_looker PROPERTIES PREFIX "" C_VISIBILITY_PRESET default
	LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(xla_cuda_looker PRIVATE ${CMAKE_DL_LIBS})

foreach(version 12 13.0 13)
	if(EXISTS ${PFW_CUDA_DIR}/${version}/include/cupti_activity.h)
		add_library(cupti_conformance${version} OBJECT tests/gpu/conformance.c)
		target_include_directories(cupti_conformance${version} PRIVATE src)
		target_include_directories(cupti_conformance${version} SYSTEM PRIVATE
			${PFW_CUDA_DIR}/${version}/include)
	endif()
endforeach()

foreach(major 12 13)
	set(MAJOR ${major})
	if(EXISTS ${PFW_CUDA_DIR}/${major}/include/cupti_activity.h)
		pfw_standin(${major})
	endif()
endforeach()

# One libnvidia-ml fits all versions.
find_path(NVML_INCLUDE nvml.h
	HINTS ${PFW_CUDA_DIR}/13/include ${PFW_CUDA_DIR}/12/include /usr/local/cuda/include)
mark_as_advanced(NVML_INCLUDE)
if(NVML_INCLUDE)
	add_library(standin_nvml SHARED tests/gpu/standin/nvml.c)
	target_include_directories(standin_nvml PRIVATE src)
	target_include_directories(standin_nvml SYSTEM PRIVATE ${NVML_INCLUDE})
	if(PFW_SANITIZE) # loaded where a second runtime would come with it
		target_compile_options(standin_nvml PRIVATE -fno-sanitize=all)
		target_link_options(standin_nvml PRIVATE -fno-sanitize=all)
	endif()
	set_target_properties(standin_nvml PROPERTIES OUTPUT_NAME nvidia-ml SOVERSION 1
		LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/standin C_VISIBILITY_PRESET default)
endif()

if(NVTX_INCLUDE)
	pfw_plain_programs(${PROJECT_BINARY_DIR}/tests tests/gpu/nvtx_target.c)
	target_include_directories(nvtx_target SYSTEM PRIVATE ${NVTX_INCLUDE})
endif()
