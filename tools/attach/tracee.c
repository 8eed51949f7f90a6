/* tools/attach/tracee.c - reads a process that is to be attached to: see tracee.h. */
#include "attach/tracee.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/text.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"
#include "ui/cli.h"

#define STATUS_MAX 8192u
#define MAPS_MAX (16u << 20)
#define LOWEST_PLACE 0x10000000u
/* Left free around a place of ours, so that no stack or heap grows into it. */
#define GAP (1u << 20)

/* ---- files of /proc ---- */

/* The first `limit` bytes of a file with two NULs; NULL and errno. */
static char *read_file(const char *path, size_t limit)
{
	char *text = malloc(limit + 2);
	int fd = pfw_open_file(path, PFW_OPEN_LINK, NULL);
	size_t used = 0;
	ssize_t n;

	if (fd < 0 || !text) {
		free(text);
		if (fd >= 0)
			close(fd);
		errno = fd < 0 ? -fd : ENOMEM;
		return NULL;
	}
	while (used < limit && (n = read(fd, text + used, limit - used)) > 0)
		used += (size_t)n;
	close(fd);
	text[used] = text[used + 1] = '\0';
	return text;
}

static char *read_proc(pid_t pid, const char *name, size_t limit)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return read_file(path, limit);
}

/* The value of a line of /proc/PID/status; NULL: no such line. */
static const char *status_value(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (!strncmp(text, name, length) && text[length] == ':')
			return text + length + 1 + strspn(text + length + 1, " \t");
	}
	return NULL;
}

bool tracee_status(pid_t pid, pid_t tid, const char *name, char *out, size_t size)
{
	char file[48], *text;
	const char *value;

	snprintf(file, sizeof(file), "task/%d/status", (int)tid);
	text = read_proc(pid, file, STATUS_MAX);
	value = status_value(text, name);
	if (value)
		snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
	free(text);
	return value;
}

void tracee_read_text(const char *path, char *text, size_t size)
{
	int fd = pfw_open_file(path, PFW_OPEN_LINK, NULL);
	ssize_t bytes = fd < 0 ? 0 : read(fd, text, size - 1);

	text[bytes > 0 ? bytes : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

static bool take_number(const char *text, const char *name, int base, uint64_t *number)
{
	const char *value = status_value(text, name);

	*number = value ? strtoull(value, NULL, base) : 0;
	return value;
}

struct thread_state tracee_thread_state(struct tracee *tracee, pid_t pid, pid_t tid)
{
	const char *text = tracee->status;
	uint64_t own, all, caught, blocked, mode, filters;
	struct thread_state state = { true, -1 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
	tracee_read_text(path, tracee->status, sizeof(tracee->status));
	if (take_number(text, "SigPnd", 16, &own) && take_number(text, "ShdPnd", 16, &all) &&
	    take_number(text, "SigCgt", 16, &caught) && take_number(text, "SigBlk", 16, &blocked))
		state.has_signal = (own | all) & caught & ~blocked;
	if (!take_number(text, "Seccomp", 10, &mode) || !mode)
		state.filters = 0;
	else if (mode != 1 && take_number(text, "Seccomp_filters", 10, &filters))
		state.filters = (int)filters;
	return state;
}

char *tracee_environment(const struct tracee *tracee, size_t limit)
{
	return read_proc(tracee->pid, "environ", limit);
}

int tracee_threads(pid_t pid, int (*take)(void *user, pid_t tid), void *user)
{
	char path[40];
	int result = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	for (struct dirent *entry; dir && !result && (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			result = take(user, (pid_t)strtol(entry->d_name, NULL, 10));
	if (dir)
		closedir(dir);
	return result;
}

/* ---- maps ---- */

static void free_maps(struct tracee *tracee)
{
	for (size_t i = 0; i < tracee->maps; i++)
		free(tracee->map[i].path);
	free(tracee->map);
	tracee->map = NULL;
	tracee->maps = 0;
}

static bool take_map(struct tracee_map *map, const char *line)
{
	char mode[5];
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*u%n", &map->start,
		   &map->end, mode, &map->offset, &path) != 4)
		return false;
	map->executable = mode[2] == 'x';
	map->writable = mode[1] == 'w' && mode[3] == 'p';
	line += path;
	line += strspn(line, " ");
	map->path = strndup(line, strcspn(line, "\n"));
	return map->path;
}

/* libc.so.6, libc-2.31.so and the libraries that were apart from it before 2.34. */
static bool is_libc_name(const char *path)
{
	static const char *const names[] = { "libc", "libpthread", "libdl" };

	for (size_t i = 0; i < CLI_ARRAY_LEN(names); i++) {
		const char *rest = pfw_text_base(path);

		if (strncmp(rest, names[i], strlen(names[i])))
			continue;
		rest += strlen(names[i]);
		if (!strncmp(rest, ".so.", 4) || (rest[0] == '-' && rest[1] == '2'))
			return true;
	}
	return false;
}

/* Between the first and the last code of libc's: few words of a stack lead there. */
static void note_libc(struct tracee *tracee)
{
	tracee->libc_start = tracee->libc_end = 0;
	for (size_t i = 0; i < tracee->maps; i++) {
		const struct tracee_map *map = &tracee->map[i];

		if (!map->executable || !is_libc_name(map->path))
			continue;
		if (!tracee->libc_end)
			tracee->libc_start = map->start;
		tracee->libc_end = map->end;
	}
}

char *tracee_maps_text(const struct tracee *tracee)
{
	return read_proc(tracee->pid, "maps", MAPS_MAX);
}

int tracee_read_maps(struct tracee *tracee)
{
	char *text = tracee_maps_text(tracee);
	size_t lines = 0;

	if (!text)
		return -errno;
	free_maps(tracee);
	for (const char *at = text; *at; at++)
		lines += *at == '\n';
	tracee->map = calloc(lines + 1, sizeof(*tracee->map));
	for (const char *line = text; tracee->map && *line && tracee->maps < lines;
	     line += strcspn(line, "\n"), line += *line == '\n')
		tracee->maps += take_map(&tracee->map[tracee->maps], line);
	free(text);
	note_libc(tracee);
	return tracee->map ? 0 : -ENOMEM;
}

const struct tracee_map *tracee_map_of(const struct tracee *tracee, uint64_t address)
{
	for (size_t i = 0; i < tracee->maps; i++)
		if (address >= tracee->map[i].start && address < tracee->map[i].end)
			return &tracee->map[i];
	return NULL;
}

bool tracee_is_libc(const struct tracee *tracee, uint64_t address)
{
	const struct tracee_map *map;

	if (address < tracee->libc_start || address >= tracee->libc_end)
		return false;
	map = tracee_map_of(tracee, address);
	return map && map->executable && is_libc_name(map->path);
}

bool tracee_has(const struct tracee *tracee, const char *name)
{
	for (size_t i = 0; i < tracee->maps; i++)
		if (!strncmp(pfw_text_base(tracee->map[i].path), name, strlen(name)))
			return true;
	return false;
}

uint64_t tracee_free_place(const struct tracee *tracee, size_t bytes)
{
	uint64_t end = LOWEST_PLACE;

	for (size_t i = 0; i < tracee->maps; i++) {
		const struct tracee_map *map = &tracee->map[i];

		if (map->start > end && map->start - end >= bytes + 2 * GAP &&
		    map->start < UINT64_C(0x7fffffffffff))
			return (map->start - GAP - bytes) & ~UINT64_C(0xffff);
		if (map->end > end)
			end = map->end;
	}
	return 0;
}

/* ---- memory ---- */

bool tracee_read(const struct tracee *tracee, uint64_t address, void *out, size_t bytes)
{
	return pfw_full_read_all(tracee->mem, out, bytes, address) == 0;
}

bool tracee_write(const struct tracee *tracee, uint64_t address, const void *data, size_t bytes)
{
	uint64_t at = address;

	return pfw_full_write(tracee->mem, data, bytes, &at) == 0;
}

/* ---- functions ---- */

/* The parts of a loaded library that looking up a name needs. */
struct library {
	const struct tracee *tracee;
	uint64_t bias, symbols, strings, hash;
};

static bool read_header(const struct tracee *tracee, uint64_t base, Elf64_Ehdr *header)
{
	return tracee_read(tracee, base, header, sizeof(*header)) &&
	       !memcmp(header->e_ident, ELFMAG, SELFMAG) &&
	       header->e_phentsize == sizeof(Elf64_Phdr);
}

bool tracee_segment(const struct tracee *tracee, uint64_t base, uint32_t type, uint32_t flags,
		    void *found)
{
	Elf64_Ehdr header;
	Elf64_Phdr one;
	bool any = false;

	if (!read_header(tracee, base, &header))
		return false;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		if (!tracee_read(tracee, base + header.e_phoff + i * sizeof(one), &one,
				 sizeof(one)) ||
		    one.p_type != type || (one.p_flags & flags) != flags)
			continue;
		memcpy(found, &one, sizeof(one));
		any = true;
	}
	return any;
}

static bool open_library(struct library *library, const struct tracee *tracee, uint64_t base)
{
	Elf64_Ehdr header;
	Elf64_Phdr dynamic;
	Elf64_Dyn entry;
	uint64_t at, bias;

	if (!read_header(tracee, base, &header) ||
	    !tracee_segment(tracee, base, PT_DYNAMIC, 0, &dynamic))
		return false;
	bias = header.e_type == ET_EXEC ? 0 : base;
	*library = (struct library){ .tracee = tracee, .bias = bias };
	for (at = bias + dynamic.p_vaddr;
	     tracee_read(tracee, at, &entry, sizeof(entry)) && entry.d_tag != DT_NULL;
	     at += sizeof(entry)) {
		/* The dynamic linker has added the base, mostly. */
		uint64_t address = entry.d_un.d_ptr + (entry.d_un.d_ptr < bias ? bias : 0);

		if (entry.d_tag == DT_SYMTAB)
			library->symbols = address;
		else if (entry.d_tag == DT_STRTAB)
			library->strings = address;
		else if (entry.d_tag == DT_GNU_HASH)
			library->hash = address;
	}
	return library->symbols && library->strings && library->hash;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* The address of a function among those of equal hash; 0 = none. */
static uint64_t function_of(const struct library *library, uint32_t symbol, const char *name)
{
	char text[64] = "";
	Elf64_Sym entry;

	if (!tracee_read(library->tracee, library->symbols + symbol * sizeof(entry), &entry,
			 sizeof(entry)) ||
	    !entry.st_value || ELF64_ST_TYPE(entry.st_info) != STT_FUNC ||
	    !tracee_read(library->tracee, library->strings + entry.st_name, text,
			 strlen(name) + 1) ||
	    strcmp(text, name) != 0)
		return 0;
	return library->bias + entry.st_value;
}

static uint64_t look_up(const struct library *library, const char *name)
{
	uint32_t head[4], hash = gnu_hash(name), symbol, value;
	uint64_t buckets, chain, found = 0;

	/* Buckets, first symbol, words of the Bloom filter, shift. */
	if (!tracee_read(library->tracee, library->hash, head, sizeof(head)) || !head[0])
		return 0;
	buckets = library->hash + sizeof(head) + 8ull * head[2];
	chain = buckets + 4ull * head[0];
	if (!tracee_read(library->tracee, buckets + 4ull * (hash % head[0]), &symbol, 4) ||
	    symbol < head[1])
		return 0;
	for (; !found && tracee_read(library->tracee, chain + 4ull * (symbol - head[1]), &value, 4);
	     symbol++) {
		if ((value | 1) == (hash | 1))
			found = function_of(library, symbol, name);
		if (value & 1)
			break;
	}
	return found;
}

uint64_t tracee_function(const struct tracee *tracee, const char *name)
{
	struct library library;
	uint64_t found = 0;

	for (size_t i = 0; i < tracee->maps && !found; i++)
		if (!tracee->map[i].offset && is_libc_name(tracee->map[i].path) &&
		    open_library(&library, tracee, tracee->map[i].start))
			found = look_up(&library, name);
	return found;
}

uint64_t tracee_export(const struct tracee *tracee, size_t *at, const char *name)
{
	uint64_t found = 0;

	while (!found && *at < tracee->maps) {
		const struct tracee_map *map = &tracee->map[(*at)++];
		struct library library;

		if (!map->offset && map->path[0] == '/' &&
		    open_library(&library, tracee, map->start))
			found = look_up(&library, name);
	}
	return found;
}

/* ---- refusals ---- */

int tracee_refuse(struct tracee *tracee, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(tracee->why, sizeof(tracee->why), format, arguments);
	va_end(arguments);
	return -1;
}

static int say_not_allowed(struct tracee *tracee, int error)
{
	char *scope;
	int level = 0;

	if (error == ENOENT || error == ESRCH)
		return tracee_refuse(tracee, "there is no such process");
	if (error != EACCES && error != EPERM)
		return tracee_refuse(tracee, "%s", strerror(error));
	scope = read_file("/proc/sys/kernel/yama/ptrace_scope", 16);
	level = scope ? atoi(scope) : 0;
	free(scope);
	if (level > 0 && geteuid() != 0)
		return tracee_refuse(tracee,
				     "this system lets a process look only into its own children "
				     "(kernel.yama.ptrace_scope is %d): run it as root",
				     level);
	return tracee_refuse(tracee,
			     "it belongs to another user, or has more rights than you: run it as "
			     "root, on the host");
}

/* Whether glibc is there.  The dynamic linker of a program that has just begun needs a moment. */
static bool await_libc(struct tracee *tracee)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	int tries = 200;

	while (!tracee_function(tracee, "read")) {
		if (!tracee_has(tracee, "ld-linux") || !tries-- || tracee_read_maps(tracee))
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* The program file: of this kind of machine, and linked with glibc. */
static int check_program(struct tracee *tracee)
{
	char *head = read_proc(tracee->pid, "exe", sizeof(Elf64_Ehdr));
	Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)head;
	bool known;

	if (!head)
		return errno == ENOENT
			       ? tracee_refuse(tracee, "it is a thread of the kernel, or has ended")
			       : say_not_allowed(tracee, errno);
	known = header->e_ident[EI_CLASS] == ELFCLASS64;
	free(head);
	if (!known)
		return tracee_refuse(tracee,
				     "it is a 32-bit program, for which there is no recorder");
	if (tracee_has(tracee, "ld-musl") || tracee_has(tracee, "libc.musl"))
		return tracee_refuse(tracee, "it runs on musl; the recorder needs glibc");
	if (!await_libc(tracee))
		return tracee_refuse(
			tracee, "it is statically linked, or has a libc that is not glibc: its "
				"calls cannot be redirected");
	return 0;
}

static int check_state(struct tracee *tracee)
{
	char value[32] = "", tracer[32] = "";

	if (!tracee_status(tracee->pid, tracee->pid, "State", value, sizeof(value)))
		return say_not_allowed(tracee, ENOENT);
	if (value[0] == 'Z' || value[0] == 'X')
		return tracee_refuse(tracee, "it has ended");
	if (tracee_status(tracee->pid, tracee->pid, "TracerPid", tracer, sizeof(tracer)) &&
	    atoi(tracer))
		return tracee_refuse(tracee, "process %d (a debugger, strace) is attached to it",
				     atoi(tracer));
	if (value[0] == 'T')
		return tracee_refuse(tracee, "it is stopped: let it go on (kill -CONT %d) first",
				     (int)tracee->pid);
	if (tracee_status(tracee->pid, tracee->pid, "x86_Thread_features", value, sizeof(value)) &&
	    strstr(value, "shstk"))
		return tracee_refuse(tracee,
				     "it runs with a shadow stack, which does not allow this");
	return 0;
}

int tracee_open(struct tracee *tracee, pid_t pid)
{
	char path[40];
	int error;

	*tracee = (struct tracee){ .pid = pid, .mem = -1 };
	if (check_state(tracee))
		return -1;
	error = tracee_read_maps(tracee);
	if (error)
		return say_not_allowed(tracee, -error);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	tracee->mem = pfw_open_file(path, PFW_OPEN_WRITE, NULL);
	if (tracee->mem < 0)
		return say_not_allowed(tracee, -tracee->mem);
	if (check_program(tracee))
		return -1;
	for (unsigned i = 0; i < TRACEE_STACKS; i++) {
		tracee->stack[i] = malloc(TRACEE_STACK_BYTES);
		if (!tracee->stack[i])
			return tracee_refuse(tracee, "%s", strerror(ENOMEM));
		memset(tracee->stack[i], 1, TRACEE_STACK_BYTES); /* so that it is there */
	}
	tracee->own_filters = tracee_thread_state(tracee, getpid(), getpid()).filters;
	return 0;
}

void tracee_close(struct tracee *tracee)
{
	free_maps(tracee);
	if (tracee->mem >= 0)
		close(tracee->mem);
	tracee->mem = -1;
	for (unsigned i = 0; i < TRACEE_STACKS; i++)
		free(tracee->stack[i]);
}
