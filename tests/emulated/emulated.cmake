# The end-to-end tests of a build for another processor, under qemu-user.
#
# Python, the shell and what they start are of this machine; programs of the build, and those that a
# test compiles, are started by a launcher.  What cannot be shown that way is left out, below.

find_program(PFW_HOST_CC NAMES cc gcc REQUIRED)
set(e2e_build ${PROJECT_BINARY_DIR}/emulated)
set(launcher ${e2e_build}/launcher)
add_custom_command(OUTPUT ${launcher}
	COMMAND ${CMAKE_COMMAND} -E make_directory ${e2e_build}/bin/.real ${e2e_build}/tests/.real
	COMMAND ${PFW_HOST_CC} -O1 -Wall -Wextra -static "-DEMULATOR=\"${PFW_QEMU}\""
		"-DROOT=\"${PFW_SYSROOT}/\"" ${CMAKE_CURRENT_LIST_DIR}/launcher.c -o ${launcher}
	DEPENDS ${CMAKE_CURRENT_LIST_DIR}/launcher.c VERBATIM)
set(emulated)
foreach(source ${program_sources})
	get_filename_component(name ${source} NAME_WE)
	list(APPEND emulated tests/${name})
endforeach()
foreach(name bin/pfw ${emulated})
	string(REPLACE / /.real/ real ${name})
	add_custom_command(OUTPUT ${e2e_build}/${name}
		COMMAND ${CMAKE_COMMAND} -E copy ${launcher} ${e2e_build}/${name}
		COMMAND ${CMAKE_COMMAND} -E create_symlink ${PROJECT_BINARY_DIR}/${name}
			${e2e_build}/${real}
		DEPENDS ${launcher} VERBATIM)
	list(APPEND launched ${e2e_build}/${name})
endforeach()
add_custom_target(emulated ALL DEPENDS ${launched})

set(e2e_environment
	PFW_BIN=${e2e_build}/bin/pfw
	PFW_LIB_DIR=${PROJECT_BINARY_DIR}/lib
	PFW_PRELOAD=${PROJECT_BINARY_DIR}/lib/libpfw_preload.so
	PFW_BUILD_DIR=${e2e_build}
	PFW_SOURCE_DIR=${PROJECT_SOURCE_DIR}
	"PFW_CROSS_CC=${CMAKE_C_COMPILER} --sysroot=${PFW_SYSROOT}"
	PFW_LAUNCHER=${launcher}
	PYTHONDONTWRITEBYTECODE=1)

# emulated_test(NAME TEST...): tests/e2e/test_NAME.py, without these.
function(emulated_test name)
	list(JOIN ARGN " or " left_out)
	set(only)
	if(left_out)
		set(only -k "not (${left_out})")
	endif()
	add_test(NAME e2e_${name} COMMAND /usr/bin/python3 -m pytest -q -p no:cacheprovider
		${PROJECT_SOURCE_DIR}/tests/e2e/test_${name}.py ${only})
	set_tests_properties(e2e_${name} PROPERTIES LABELS e2e TIMEOUT 3600
		ENVIRONMENT "${e2e_environment}")
endfunction()

set_tests_properties(test_json test_live test_merge test_naming test_pass test_window
	PROPERTIES ENVIRONMENT PFW_EMULATED=1)
# What takes a second takes ten here.
foreach(source ${unit_sources})
	get_filename_component(name ${source} NAME_WE)
	set_tests_properties(${name} PROPERTIES TIMEOUT 3600)
endforeach()

# Not at all: layout, readme (nothing of them depends on the processor), programs (traces Python, the
# shell, git, sqlite), faults (needs seccomp or ptrace, and root's mounts).
#
# What is left out, below, is one of:
# - it traces a program of this machine: Python, the shell, cat
# - it starts a program by execve() from the emulated one, which needs binfmt_misc
# - qemu's /proc/self/stat has its own start time and no session: who looks from outside sees another
# - qemu makes vfork a fork: posix_spawn of what is absent returns 0; and it has no execveat
# - it needs an old version of a call, and aarch64's libc has none
# - qemu has threads of its own, its own line about a signal, and no seccomp
emulated_test(api test_cplusplus)
emulated_test(attach test_python test_old_version)
emulated_test(calls posix_spawn test_daemon execveat)
emulated_test(cli test_output_and_input_are_the_program_s test_python test_a_free_name_is_picked
	test_output_names test_the_variable_names_the_trace test_ranks_have_a_directory
	test_the_end_message test_the_next_command_works test_nothing_recorded test_nested_runs
	test_a_path_that_the_loader test_without_the_preload_object test_repair_leaves
	test_repair_finishes test_run_adopts test_doctor test_five_lines test_repair_names
	test_repair_of_many test_run_removes_an_empty)
emulated_test(failopen test_full_disk test_standard_descriptors_closed test_limit_of_descriptors
	test_disabled test_enabled_and_idle test_environment_that_the_program
	test_missing_working_directory test_killed_by_its_own_signal)
emulated_test(fds test_counts_as_strace test_descriptors_without_a_path)
emulated_test(kill test_killed_repair test_repair_of_the_living exec)
emulated_test(live test_an_event_is_in_the_file test_the_writer_rests test_what_is_not_written
	test_a_trace_that_is_being_written)
emulated_test(names test_ancestors_are test_children_of_children test_fork_and_exec test_child_of_a_parent
	test_exec_in_one test_exec_twice test_child_in_another test_run_is_the_same test_torchrun
	test_launcher_by test_no_words test_impossible_ranks test_programs_run_after test_each_mpirun
	test_trace_is_not)
emulated_test(select test_importing_pandas test_a_trace_without_io test_unwrapped_calls test_children_by_name
	test_forked_children test_ranks_are_no_children test_variables_are_answered)
