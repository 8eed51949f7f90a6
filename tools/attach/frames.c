/* tools/attach/frames.c - follows the stack of a thread that computes: see inject.h.
 *
 * The command may divert such a thread if pthread_create(), which the thread then calls, finds no lock
 * that the thread itself holds.  Locks of an allocator do not matter, because the thread's allocations
 * are lent (lender.h).  libc and the dynamic linker release their locks before they return; only their
 * callbacks (dl_iterate_phdr(), constructors) run with a lock held.
 */
#include "attach/inject.h"

#include <stddef.h>

#ifdef PFW_HAVE_DW

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/thread.h"
#include "attach/tracee.h"
#include "symbolize/elfutils.h"

struct frames {
	const struct tracee *tracee;
	Dwfl *dwfl;
	Dwfl_Callbacks callbacks;
	char *debug_path;
	uint64_t main, create; /* addresses of __libc_start_main() and pthread_create() */
};

/* Now, not when a thread stands still. */
static int load(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr start, void *user)
{
	Dwarf_Addr bias;

	(void)data;
	(void)name;
	(void)start;
	(void)user;
	elfutils.dwfl_module_eh_cfi(module, &bias);
	return DWARF_CB_OK;
}

/* The programs and libraries.  libdw takes no file that has two names, as what is made without one and
 * named later: spools. */
static int report(const struct frames *frames)
{
	char *text = tracee_maps_text(frames->tracee), *end = text, *next;
	FILE *from;
	int error = -1;

	for (char *line = text; line && *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		if (memchr(line, '/', (size_t)(next - line)) &&
		    !memmem(line, (size_t)(next - line), " /dev/", 6) &&
		    !memmem(line, (size_t)(next - line), " (deleted)", 10)) {
			memmove(end, line, (size_t)(next - line));
			end += next - line;
		}
	}
	from = end > text ? fmemopen(text, (size_t)(end - text), "r") : NULL;
	if (from) {
		error = elfutils.dwfl_linux_proc_maps_report(frames->dwfl, from);
		fclose(from);
	}
	free(text);
	return error;
}

struct frames *frames_open(const struct tracee *tracee)
{
	struct frames *frames = calloc(1, sizeof(*frames));
	char why[256];
	bool ready = frames && tracee->lends && !elfutils_open(why, sizeof(why));

	if (ready) {
		frames->callbacks = (Dwfl_Callbacks){
			.find_elf = elfutils.dwfl_linux_proc_find_elf,
			.find_debuginfo = elfutils.dwfl_standard_find_debuginfo,
			.debuginfo_path = &frames->debug_path,
		};
		frames->tracee = tracee;
		frames->dwfl = elfutils.dwfl_begin(&frames->callbacks);
		frames->main = tracee_function(tracee, "__libc_start_main");
		frames->create = tracee_function(tracee, "pthread_create");
		ready = frames->dwfl && frames->main && frames->create && !report(frames) &&
			!elfutils.dwfl_report_end(frames->dwfl, NULL, NULL) &&
			!elfutils.dwfl_linux_proc_attach(frames->dwfl, tracee->pid, true);
	}
	if (ready) {
		elfutils.dwfl_getmodules(frames->dwfl, load, NULL, 0);
		return frames;
	}
	frames_close(frames);
	return NULL;
}

void frames_close(struct frames *frames)
{
	if (frames && frames->dwfl)
		elfutils.dwfl_end(frames->dwfl);
	free(frames);
}

/* The functions that call main() and a thread's first one have no names: they lie beside these. */
#define BEFORE_MAIN 0x100u
#define BEHIND_MAIN 0x200u
#define BEFORE_CREATE 0x1000u

static bool is_start(const struct frames *frames, uint64_t pc)
{
	return (pc >= frames->main - BEFORE_MAIN && pc < frames->main + BEHIND_MAIN) ||
	       (pc >= frames->create - BEFORE_CREATE && pc < frames->create);
}

/* Whether this is code of the program, of its libraries or of a compiler at run time. */
static bool is_free_code(const struct tracee *tracee, uint64_t pc)
{
	const struct tracee_map *map = tracee_map_of(tracee, pc);
	const char *slash = map ? strrchr(map->path, '/') : NULL;

	return map && map->executable && !tracee_is_libc(tracee, pc) &&
	       !(slash && (!strncmp(slash, "/ld-", 4) || !strncmp(slash, "/libpfw", 7)));
}

struct walk {
	const struct frames *frames;
	bool free; /* it has come to the start */
};

static int look(Dwfl_Frame *frame, void *user)
{
	struct walk *walk = user;
	Dwarf_Addr pc;
	bool activation;

	if (!elfutils.dwfl_frame_pc(frame, &pc, &activation))
		return DWARF_CB_ABORT;
	walk->free = is_start(walk->frames, pc);
	return walk->free || !is_free_code(walk->frames->tracee, pc) ? DWARF_CB_ABORT : DWARF_CB_OK;
}

bool frames_are_free(struct frames *frames, const struct thread *thread)
{
	struct walk walk = { .frames = frames };

	elfutils.dwfl_getthread_frames(frames->dwfl, thread->tid, look, &walk);
	return walk.free;
}

#else

struct frames *frames_open(const struct tracee *tracee)
{
	(void)tracee;
	return NULL;
}

void frames_close(struct frames *frames)
{
	(void)frames;
}

bool frames_are_free(struct frames *frames, const struct thread *thread)
{
	(void)frames;
	(void)thread;
	return false;
}

#endif
