# Manual pages and completions, written by the `pfw` that was built: -DPFW=its path, behind the
# emulator that it needs -DOUT=directory
execute_process(COMMAND ${PFW} help --format rst OUTPUT_VARIABLE list COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "pfw [a-z]+" commands "${list}")

file(MAKE_DIRECTORY ${OUT}/man/man1 ${OUT}/bash-completion/completions ${OUT}/zsh/site-functions
	${OUT}/fish/vendor_completions.d)
execute_process(COMMAND ${PFW} help --format man OUTPUT_FILE ${OUT}/man/man1/pfw.1
	COMMAND_ERROR_IS_FATAL ANY)
foreach(command ${commands})
	string(REPLACE "pfw " "" name ${command})
	execute_process(COMMAND ${PFW} help --format man ${name}
		OUTPUT_FILE ${OUT}/man/man1/pfw-${name}.1 COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${PFW} completion bash
	OUTPUT_FILE ${OUT}/bash-completion/completions/pfw COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PFW} completion zsh OUTPUT_FILE ${OUT}/zsh/site-functions/_pfw
	COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PFW} completion fish
	OUTPUT_FILE ${OUT}/fish/vendor_completions.d/pfw.fish COMMAND_ERROR_IS_FATAL ANY)
