/* common/base/program.c - the beginning of a program on disk; see program.h. */
#include "common/base/program.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/os.h"

/* The machines that os.h knows. */
#ifdef __x86_64__
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

const char *pfw_program_why(enum pfw_program program)
{
	switch (program) {
	case PFW_PROGRAM_STATIC:
		return "linked statically: nothing can be preloaded into it";
	case PFW_PROGRAM_MUSL:
		return "linked against musl: only programs that use glibc can be traced";
	case PFW_PROGRAM_32_BIT:
		return "a 32-bit program: only 64-bit ones can be traced";
	case PFW_PROGRAM_MACHINE:
		return "built for another kind of processor";
	case PFW_PROGRAM_PRIVILEGED:
		return "set-user-ID or set-group-ID: the linker ignores LD_PRELOAD for it";
	default:
		return NULL;
	}
}

/* Not one that blocks, or that does something when it is opened.  -1: it is none, or not readable. */
static int open_regular(const char *path, struct stat *st)
{
	int fd;

	if (pfw_syscall6(SYS_newfstatat, AT_FDCWD, (long)path, (long)st, 0, 0, 0) ||
	    !S_ISREG(st->st_mode))
		return -1;
	fd = pfw_os_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	return fd < 0 ? -1 : fd;
}

/* By its dynamic linker.  PFW_PROGRAM_FITS also if that cannot be read. */
static enum pfw_program look_at_linker(int fd, const Elf64_Ehdr *header)
{
	char name[64] = "";
	Elf64_Phdr part;

	for (unsigned i = 0; i < header->e_phnum; i++) {
		uint64_t at = header->e_phoff + (uint64_t)i * header->e_phentsize;

		if (pfw_os_pread(fd, &part, sizeof(part), at) != (ssize_t)sizeof(part))
			return PFW_PROGRAM_FITS;
		if (part.p_type != PT_INTERP)
			continue;
		pfw_os_pread(fd, name, sizeof(name) - 1, part.p_offset);
		return strstr(name, "/ld-musl-") ? PFW_PROGRAM_MUSL : PFW_PROGRAM_FITS;
	}
	return PFW_PROGRAM_STATIC;
}

static bool is_privileged(const struct stat *st)
{
	return (st->st_mode & S_ISUID &&
		st->st_uid != (uid_t)pfw_syscall6(SYS_geteuid, 0, 0, 0, 0, 0, 0)) ||
	       (st->st_mode & S_ISGID && st->st_mode & S_IXGRP &&
		st->st_gid != (gid_t)pfw_syscall6(SYS_getegid, 0, 0, 0, 0, 0, 0));
}

static enum pfw_program look_at(int fd, const Elf64_Ehdr *header, const struct stat *st)
{
	enum pfw_program program;

	if (header->e_ident[EI_CLASS] == ELFCLASS32)
		return PFW_PROGRAM_32_BIT;
	if (header->e_machine != MACHINE)
		return PFW_PROGRAM_MACHINE;
	program = look_at_linker(fd, header);
	return program == PFW_PROGRAM_FITS && is_privileged(st) ? PFW_PROGRAM_PRIVILEGED : program;
}

enum pfw_program pfw_program_look(const char *path, char line[PFW_PROGRAM_LINE])
{
	union {
		Elf64_Ehdr header;
		char text[PFW_PROGRAM_LINE + 2];
	} begin = { .text = "" };
	enum pfw_program program = PFW_PROGRAM_FITS;
	struct stat st;
	int fd = open_regular(path, &st);
	ssize_t bytes;

	if (fd < 0)
		return program;
	bytes = pfw_os_pread(fd, begin.text, sizeof(begin.text) - 1, 0);
	if (bytes >= (ssize_t)sizeof(begin.header) &&
	    !memcmp(begin.header.e_ident, ELFMAG, SELFMAG)) {
		program = look_at(fd, &begin.header, &st);
	} else if (bytes > 2 && begin.text[0] == '#' && begin.text[1] == '!') {
		program = PFW_PROGRAM_SCRIPT;
		memcpy(line, begin.text + 2, PFW_PROGRAM_LINE);
		line[strcspn(line, "\n")] = '\0';
	}
	pfw_os_close(fd);
	return program;
}
