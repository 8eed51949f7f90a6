/* tools/share/executable.c - whether a program on disk can be traced; see executable.h. */
#include "share/executable.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "store/sys/open.h"
#include "ui/cli.h"

/* The machine that this binary and its preload object are built for. */
#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#elif defined(__powerpc64__)
#define MACHINE EM_PPC64
#elif defined(__riscv)
#define MACHINE EM_RISCV
#elif defined(__s390x__)
#define MACHINE EM_S390
#else
#error "executable.c does not know this machine's ELF number"
#endif

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool target_find(char path[PATH_MAX], const char *program)
{
	const char *list = getenv("PATH");
	struct stat st;

	if (strchr(program, '/'))
		return (size_t)snprintf(path, PATH_MAX, "%s", program) < PATH_MAX &&
		       stat(path, &st) == 0;
	for (const char *at = list ? list : "/bin:/usr/bin"; *program; at++) {
		size_t bytes = strcspn(at, ":");

		if ((size_t)snprintf(path, PATH_MAX, "%.*s%s%s", (int)bytes, at, bytes ? "/" : "",
				     program) < PATH_MAX &&
		    is_program(path))
			return true;
		at += bytes;
		if (*at == '\0')
			break;
	}
	return false;
}

static void judge(struct target *target, enum target_state state, const char *what)
{
	target->state = state;
	snprintf(target->why, sizeof(target->why), "%s %s", cli_name(target->path), what);
}

/* Whether the kernel runs it with the linker in secure mode: other ids, or capabilities. */
static bool is_privileged(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	return (st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
	       (st.st_mode & S_ISGID && st.st_mode & S_IXGRP && st.st_gid != getegid()) ||
	       (geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

/* Whether there is a PT_INTERP among the program headers.  -1: a header cannot be read. */
static int has_linker(int fd, const Elf64_Ehdr *header)
{
	for (unsigned i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr segment;
		off_t at = (off_t)(header->e_phoff + (uint64_t)i * header->e_phentsize);

		if (pread(fd, &segment, sizeof(segment), at) != (ssize_t)sizeof(segment))
			return -1;
		if (segment.p_type == PT_INTERP)
			return 1;
	}
	return 0;
}

static void judge_elf(struct target *target, int fd, const Elf64_Ehdr *header)
{
	if (header->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
		judge(target, TARGET_FOREIGN,
		      "is a 32-bit program: only 64-bit ones can be traced");
	else if (header->e_machine != MACHINE)
		judge(target, TARGET_FOREIGN, "is built for another kind of processor");
	else if (has_linker(fd, header) == 0)
		judge(target, TARGET_STATIC,
		      "is linked statically: nothing can be preloaded into it");
	else if (is_privileged(target->path))
		judge(target, TARGET_SETUID,
		      "is set-user-ID, set-group-ID or has capabilities: the linker ignores "
		      "LD_PRELOAD for it");
}

/* Put the interpreter of a `#!` line into target->path. */
static bool find_interpreter(struct target *target, const char *line)
{
	char first[256], second[256];
	int count = sscanf(line, "#! %255s %255s", first, second);
	const char *slash = strrchr(first, '/');

	if (count < 1)
		return false;
	if (count == 2 && strcmp(slash ? slash + 1 : first, "env") == 0 && second[0] != '-')
		return target_find(target->path, second);
	return target_find(target->path, first);
}

static void look_inside(struct target *target, int depth)
{
	union {
		Elf64_Ehdr header;
		char text[257];
	} begin;
	int fd = pfw_open_file(target->path, PFW_OPEN_LINK, NULL);
	ssize_t bytes;

	if (fd < 0)
		return; /* executable, not readable: no more is known */
	memset(&begin, 0, sizeof(begin));
	bytes = read(fd, begin.text, sizeof(begin.text) - 1);
	if (bytes >= (ssize_t)sizeof(begin.header) &&
	    memcmp(begin.header.e_ident, ELFMAG, SELFMAG) == 0)
		judge_elf(target, fd, &begin.header);
	else if (bytes > 2 && begin.text[0] == '#' && begin.text[1] == '!' && depth > 0 &&
		 find_interpreter(target, begin.text))
		look_inside(target, depth - 1);
	close(fd);
}

void target_look(struct target *target, const char *program)
{
	*target = (struct target){ .state = TARGET_TRACEABLE };
	if (!target_find(target->path, program)) {
		target->state = TARGET_NOT_FOUND;
		snprintf(target->why, sizeof(target->why), "%s: %s", cli_name(program),
			 strchr(program, '/') ? "no such file" : "not found on the PATH");
		return;
	}
	if (!is_program(target->path)) {
		judge(target, TARGET_NOT_EXECUTABLE, "is no executable file");
		return;
	}
	look_inside(target, 4); /* the kernel follows 4 interpreters */
}
