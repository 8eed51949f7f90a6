/* common/base/program.h - whether the dynamic linker preloads an object into a program on disk. */
#pragma once

enum pfw_program {
	PFW_PROGRAM_FITS,   /* it does, or the file cannot be read */
	PFW_PROGRAM_SCRIPT, /* it begins with #!: that depends on its interpreter */
	PFW_PROGRAM_STATIC,
	PFW_PROGRAM_MUSL, /* of another libc than the preload object */
	PFW_PROGRAM_32_BIT,
	PFW_PROGRAM_MACHINE,	/* of another kind than ours */
	PFW_PROGRAM_PRIVILEGED, /* set-user-ID or set-group-ID, of other ids than ours */
};

#define PFW_PROGRAM_LINE 256

/* Look at the file.  `line` (which may be `path`) gets what a script has after its #!, without the
 * line's end.  The path need not be readable memory.  Thread: any.  Signal: safe. */
enum pfw_program pfw_program_look(const char *path, char line[PFW_PROGRAM_LINE]);

/* Why nothing is preloaded: what the program is, as "linked statically: ..."; NULL = something is. */
const char *pfw_program_why(enum pfw_program program);
