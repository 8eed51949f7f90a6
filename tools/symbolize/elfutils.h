/* tools/symbolize/elfutils.h - the functions of libdw, which is opened when the command needs it.
 *
 * Linked, it would be loaded with libelf and four compression libraries by every command.
 */
#pragma once

#include <stddef.h>

/* Open the libraries.  0, or -1 with what is missing and how to get it.  Thread: main, once. */
int elfutils_open(char *why, size_t size);

/* The C++ name of a symbol, from malloc; NULL: none, or no libstdc++.  Thread: any, later. */
char *elfutils_demangle(const char *symbol);

#ifdef PFW_HAVE_DW

#include <dwarf.h>
#include <elfutils/libdwfl.h>

/* clang-format off */
#define ELFUTILS_CALLS(X) \
	X(dwfl_begin) X(dwfl_end) X(dwfl_errmsg) X(dwfl_report_begin) X(dwfl_report_elf) X(dwfl_report_end) \
	X(dwfl_report_module) X(dwfl_module_report_build_id) X(dwfl_module_build_id) X(dwfl_module_getelf) \
	X(dwfl_module_addrinfo) X(dwfl_module_addrdie) X(dwfl_module_nextcu) \
	X(dwfl_build_id_find_elf) X(dwfl_standard_find_debuginfo) \
	X(dwfl_linux_proc_maps_report) X(dwfl_linux_proc_find_elf) X(dwfl_linux_proc_attach) X(dwfl_getmodules) \
	X(dwfl_module_eh_cfi) X(dwfl_getthread_frames) X(dwfl_frame_pc) \
	X(dwarf_attr) X(dwarf_attr_integrate) X(dwarf_child) X(dwarf_cu_info) X(dwarf_diename) X(dwarf_filesrc) \
	X(dwarf_formstring) X(dwarf_formudata) X(dwarf_getsrc_die) X(dwarf_getsrcfiles) X(dwarf_haspc) \
	X(dwarf_lineno) X(dwarf_linesrc) X(dwarf_siblingof) X(dwarf_tag)
/* clang-format on */

/* elfutils.dwfl_begin() is dwfl_begin(), and so on. */
struct elfutils {
#define X(name) __typeof__(name) *name;
	ELFUTILS_CALLS(X)
#undef X
};

extern struct elfutils elfutils;

#endif
