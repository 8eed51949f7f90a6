/* tools/symbolize/symbolize.h - the parts of `pfw symbolize`.
 *
 * Room tools/symbolize: addresses in args.stack become functions and lines, by elfutils' libdw.  It
 * may use tools/copies, tools/ui, tools/share and the store.  Start with symbolize.c, which has the
 * command and what becomes of a line; modules.c finds the file of a module and checks that it is
 * the one that ran, frames.c finds the functions and lines of an address, elfutils.c opens the
 * library.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/json/value.h"
#include "store/read/stream.h"

/* ---- modules.c: the programs and libraries of the traces ---- */

#define MODULE_ID_MAX 64u /* bytes of a build id */

enum module_state {
	MODULE_NEW,
	MODULE_OPEN,
	MODULE_MISSING,
	MODULE_CHANGED, /* another build has its place */
	MODULE_NAMELESS /* no file: [vdso] */
};

struct Dwfl;
struct Dwfl_Module;

struct module {
	const char *path; /* as recorded */
	uint8_t id[MODULE_ID_MAX];
	unsigned id_bytes; /* 0: none is known, so it is not checked */
	enum module_state state;
	struct Dwfl *dwfl; /* OPEN: one each, since all begin at address 0 */
	struct Dwfl_Module *elf;
	uint64_t bias; /* from an address of the ELF file to one of `dwfl` */
	bool library;  /* a library of the system: its frames end with its path */
	char why[400]; /* MISSING, CHANGED */
};

struct modules {
	const char *root; /* of the machine that recorded; "": this one */
	char *debug_path; /* for libdwfl */
	void *callbacks;  /* the same */
	struct module **module;
	size_t count;
};

/* Add a module; *number gets its place.  0 or -ENOMEM.  Thread: one at a time, as all here. */
int modules_add(struct modules *modules, const char *path, size_t path_bytes, const char *id,
		size_t id_bytes, uint32_t *number);

/* Find and open its file, once. */
void modules_open(struct modules *modules, struct module *module);

/* Say which modules are missing or changed, a line each, the first ten.  How many they are. */
size_t modules_say(const struct modules *modules, const char *command);

void modules_release(struct modules *modules);

/* ---- frames.c ---- */

enum frames_found { FRAMES_NONE, FRAMES_FUNCTION, FRAMES_LINE };

/* Append the frames of the call that returns to `offset`, innermost first: more than one where
 * functions are inlined.  Each is a JSON string, with commas between them.  *found says what is
 * known; NONE: nothing is appended.  0 or -ENOMEM.  Thread: one at a time. */
int frames_of(const struct module *module, uint64_t offset, struct pfw_buffer *out,
	      enum frames_found *found);
