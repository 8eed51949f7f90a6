/* recorder/wrap/exec_env.c - our variables in the environment of a new program: see exec_env.h.
 *
 * The kernel has not yet checked what the program passes to exec.  So it is copied piece by piece
 * through the kernel; if that fails, exec itself reports EFAULT.
 */
#include "recorder/wrap/exec_env.h"

#include <string.h>

#include "common/base/program.h"
#include "common/settings/config.h"
#include "common/settings/naming.h"
#include "recorder/guest/peek.h"
#include "recorder/probe/probe.h"

#define PRELOAD "LD_PRELOAD="
#define ENABLE "DFTRACER_ENABLE="
#define OBJECT "/libpfw_preload" /* .so, or _sync.so */
#define COUNT_MAX 65536u	 /* more variables are not read */
#define TEXT_MAX (128u * 1024u)	 /* per variable, the kernel's limit */

static struct {
	bool on;	    /* a program with both variables is traced */
	bool follow;	    /* PFW_FOLLOW: add missing variables */
	const char *object; /* the preload object in our LD_PRELOAD */
	size_t object_bytes;
	char path[PFW_PATH_MAX]; /* of that object, if it is absolute; else "" */
	char *const *environ;
	uint16_t template;
} ours;

static bool begins(const char *entry, const char *name)
{
	return !strncmp(entry, name, strlen(name));
}

/* The preload object among the words of an LD_PRELOAD. */
static const char *find_object(const char *list, size_t *bytes)
{
	for (const char *at = list; *at; at += *bytes + (at[*bytes] != '\0')) {
		*bytes = strcspn(at, ": ");
		if (memmem(at, *bytes, OBJECT, strlen(OBJECT)))
			return at;
	}
	return NULL;
}

void pfw_exec_env_init(const struct pfw_config *config, char *const *environ, uint16_t template)
{
	const char *list = pfw_config_lookup(environ, "LD_PRELOAD");

	ours.environ = environ;
	ours.template = template;
	ours.follow = config->follow;
	ours.object = list ? find_object(list, &ours.object_bytes) : NULL;
	if (ours.object && *ours.object == '/' && ours.object_bytes < sizeof(ours.path))
		memcpy(ours.path, ours.object, ours.object_bytes);
	ours.on = ours.object && pfw_config_lookup(environ, "DFTRACER_ENABLE") &&
		  !(config->children && !strcmp(config->children, "none"));
}

/* ---- reading an environment ---- */

/* Whether the text may be the beginning of NAME. */
static bool may_begin(const char *text, size_t bytes, const char *name)
{
	return !strncmp(text, name, bytes < strlen(name) ? bytes : strlen(name));
}

/* Whether a variable can be read to its end, or to TEXT_MAX.  *wanted: whether it is one of ours.
 * Other variables are read only if a new list is made. */
static bool is_readable(const char *text, bool *wanted)
{
	char buf[64];
	size_t bytes = 0, step, n;

	do {
		/* Up to the next multiple of buf, so that no read crosses a page. */
		step = sizeof(buf) - ((uintptr_t)text + bytes) % sizeof(buf);
		if (!pfw_peek(buf, text + bytes, step))
			return false;
		if (!bytes)
			*wanted = ours.follow || may_begin(buf, step, ENABLE) ||
				  may_begin(buf, step, PRELOAD);
		n = strnlen(buf, step);
		bytes += n;
	} while (*wanted && n == step && bytes < TEXT_MAX);
	return true;
}

/* The tracing variables that an environment contains. */
struct found {
	size_t count;
	const char *preload; /* the value of LD_PRELOAD */
	bool object, enable;
};

static void look_at(struct found *found, const char *entry)
{
	size_t bytes;

	found->enable |= begins(entry, ENABLE);
	if (!begins(entry, PRELOAD))
		return;
	found->preload = entry + strlen(PRELOAD);
	found->object = find_object(found->preload, &bytes) != NULL;
}

/* A part of a list, up to where a page may end; 0 if it cannot be read. */
#define PART 8u
static size_t get_part(char *part[PART], char *const *place)
{
	size_t count = PART - (uintptr_t)place / sizeof(*place) % PART;

	return pfw_peek(part, place, count * sizeof(*part)) ? count : 0;
}

/* False: the list cannot be read.  The program's own `environ` needs no check, since libc reads it,
 * too. */
static bool look(struct found *found, char *const *envp)
{
	bool trusted = envp == environ, wanted = true;
	char *part[PART], *entry;
	size_t next = 0, count = 0;

	memset(found, 0, sizeof(*found));
	for (; envp && found->count < COUNT_MAX; found->count++) {
		if (!trusted && next == count) {
			next = 0;
			count = get_part(part, envp + found->count);
			if (!count)
				return false;
		}
		entry = trusted ? envp[found->count] : part[next++];
		if (!entry)
			return true;
		if (!trusted && !is_readable(entry, &wanted))
			return false;
		if (wanted)
			look_at(found, entry);
		if (found->object && found->enable)
			return true;
	}
	return !envp;
}

/* ---- adding our variables ---- */

static bool has_name(char *const *envp, size_t count, const char *entry)
{
	size_t bytes = strcspn(entry, "=") + 1;

	for (size_t i = 0; i < count; i++)
		if (!strncmp(envp[i], entry, bytes))
			return true;
	return false;
}

/* A block of memory that stores its own size, for free_block(). */
static void *get_block(size_t bytes)
{
	size_t *block =
		pfw_os_mmap(bytes + 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!block)
		return NULL;
	*block = bytes + 16;
	return (char *)block + 16;
}

static void free_block(char *const *envp)
{
	char *block = (char *)(uintptr_t)envp - 16;

	pfw_os_munmap(block, *(size_t *)(void *)block);
}

/* "LD_PRELOAD=ours:theirs" at `text`. */
static char *make_preload(char *text, const struct found *found)
{
	char *at = stpcpy(text, PRELOAD);

	memcpy(at, ours.object, ours.object_bytes);
	at += ours.object_bytes;
	*at = '\0';
	if (found->preload && *found->preload) {
		*at++ = ':';
		strcpy(at, found->preload);
	}
	return text;
}

/* A copy of envp with the missing variables; NULL without memory. */
static char **complete(char *const *envp, const struct found *found)
{
	size_t own = 0, used = 0, preload = found->preload ? strlen(found->preload) : 0;
	char **out;

	while (ours.environ[own])
		own++;
	out = get_block((found->count + own + 2) * sizeof(*out) + sizeof(PRELOAD) +
			ours.object_bytes + preload + 1);
	if (!out)
		return NULL;
	for (size_t i = 0; i < found->count; i++)
		if (found->object || !begins(envp[i], PRELOAD))
			out[used++] = envp[i];
	for (size_t i = 0; i < own; i++)
		if ((begins(ours.environ[i], "DFTRACER_") || begins(ours.environ[i], "PFW_")) &&
		    !has_name(envp, found->count, ours.environ[i]))
			out[used++] = ours.environ[i];
	if (!found->object)
		out[used++] = make_preload((char *)(out + found->count + own + 2), found);
	out[used] = NULL;
	return out;
}

/* ---- the program ---- */

#define INTERPRETERS_MAX 4 /* of scripts, as in the kernel */

/* Why nothing can be preloaded into it; NULL: something can, or it cannot be read. */
static const char *why_not(const char *path)
{
	char line[PFW_PROGRAM_LINE], *name;
	enum pfw_program program = pfw_program_look(path, line);

	for (int i = 0; i < INTERPRETERS_MAX && program == PFW_PROGRAM_SCRIPT; i++) {
		name = line + strspn(line, " \t");
		name[strcspn(name, " \t")] = '\0';
		program = pfw_program_look(name, line);
	}
	return pfw_program_why(program);
}

/* The same of the program that libc finds by this name. */
static const char *why_not_found(const char *name)
{
	const char *list = pfw_config_lookup(environ, "PATH");
	size_t bytes, part;
	char path[512];

	if (!pfw_peek(path, name, 1))
		return NULL;
	bytes = strlen(name);
	for (const char *at = list ? list : "/bin:/usr/bin";; at += part + 1) {
		part = strcspn(at, ":");
		if (part + 1 + bytes < sizeof(path)) {
			memcpy(path, at, part);
			path[part] = '/';
			memcpy(path + part + (part != 0), name, bytes + 1);
			if (!pfw_syscall6(SYS_faccessat, AT_FDCWD, (long)path, X_OK, 0, 0, 0))
				return why_not(path);
		}
		if (!at[part])
			return NULL;
	}
}

/* After chroot(), or as another user. */
static const char *why_not_here(void)
{
	if (ours.path[0] &&
	    pfw_syscall6(SYS_faccessat, AT_FDCWD, (long)ours.path, R_OK, 0, 0, 0) < 0)
		return "the preload object cannot be read: another root, or another user";
	return pfw_probe_host.why_untraced ? pfw_probe_host.why_untraced() : NULL;
}

/* ---- before and after a start ---- */

void pfw_exec_env_begin(struct pfw_exec_env *follow, const char *program, enum pfw_exec_kind kind,
			char *const *envp)
{
	int error = errno;
	struct found found;
	char **made;

	*follow = (struct pfw_exec_env){ .envp = envp };
	if (!look(&found, envp))
		return;
	follow->traced = found.object && found.enable;
	if (!ours.on)
		return;
	if (program)
		follow->why = kind == PFW_EXEC_SEARCH && !strchr(program, '/')
				      ? why_not_found(program)
				      : why_not(program);
	if (!follow->why && follow->traced)
		follow->why = why_not_here();
	if (follow->why || follow->traced) {
		follow->traced = !follow->why;
		return;
	}
	made = ours.follow && kind != PFW_EXEC_SHELL ? complete(envp, &found) : NULL;
	if (made) {
		follow->envp = made;
		follow->made = follow->traced = true;
	} else {
		follow->why = found.object ? "environment without DFTRACER_ENABLE"
					   : "environment without LD_PRELOAD";
	}
	errno = error;
}

static void record(int32_t pid, const char *why)
{
	size_t bytes = strlen(why), slots = 1 + (bytes + PFW_SLOT_BYTES - 1) / PFW_SLOT_BYTES;
	struct pfw_record *record;
	uint64_t position;

	if (!pfw_probe_ready(&pfw_switches->io))
		return;
	record = pfw_ring_reserve(pfw_thread.ring, (unsigned)slots, &position);
	if (!record)
		return;
	record->template = ours.template;
	record->slots = (uint8_t)slots;
	record->flags = PFW_RECORD_INSTANT;
	record->t0 = pfw_clock_ticks();
	record->dur = 0;
	record->file = 0;
	record->error = 0;
	record->value[0] = (uint64_t)pid;
	record->value[1] = bytes;
	record->value[2] = record->value[3] = 0;
	memcpy(record + 1, why, bytes);
	pfw_probe_commit(record, position);
}

void pfw_exec_env_started(const struct pfw_exec_env *follow, int32_t pid)
{
	int error = errno;

	if (follow->why)
		record(pid, follow->why);
	errno = error;
}

void pfw_exec_env_end(struct pfw_exec_env *follow)
{
	int error = errno;

	if (follow->made)
		free_block(follow->envp);
	follow->made = false;
	errno = error;
}

/* ---- vfork ---- */

void pfw_exec_env_leave(const struct pfw_exec_env *follow)
{
	pfw_thread.untraced = follow->why;
	pfw_thread.left = follow->made ? follow->envp : NULL;
}

void pfw_exec_env_take_back(void)
{
	pfw_thread.untraced = NULL;
	pfw_thread.left = NULL;
}

void pfw_exec_env_vforked(int32_t pid)
{
	struct pfw_exec_env follow = { .envp = pfw_thread.left,
				       .why = pfw_thread.untraced,
				       .made = pfw_thread.left };

	pfw_exec_env_take_back();
	if (pid > 0)
		pfw_exec_env_started(&follow, pid);
	pfw_exec_env_end(&follow);
}
