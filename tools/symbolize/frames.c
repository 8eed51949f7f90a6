/* tools/symbolize/frames.c - the functions and lines of an address; see symbolize.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/encode/encode.h"
#include "symbolize/elfutils.h"
#include "symbolize/symbolize.h"

#ifdef PFW_HAVE_DW

#define TEXT_BYTES 4096u /* of a frame; the rest is cut */
#define DEEP 64u	 /* functions inlined into each other */

/* The functions whose code an address is, outermost first: all but the first are inlined. */
struct scopes {
	Dwarf_Die function[DEEP];
	unsigned count, depth;
};

/* Of one address. */
struct place {
	const struct module *module;
	Dwarf_Addr pc; /* as in the debug information */
	Dwarf_Die *unit;
	Dwarf_Die split;    /* what a skeleton of -gsplit-dwarf stands for, or the unit */
	const char *symbol; /* of the symbol table, or NULL */
	struct pfw_buffer *out;
	bool begun; /* a frame is written */
};

/* ---- names ---- */

/* Cut a C++ name before its arguments. */
static void cut_arguments(char *name)
{
	char *at = strrchr(name, ')');
	int open = 0;

	if (!at || strncmp(at, ")::", 3) == 0)
		return;
	for (; at > name; at--) {
		open += *at == ')' ? 1 : *at == '(' ? -1 : 0;
		if (!open)
			break;
	}
	if (at > name)
		*at = '\0';
}

/* Write the name of a symbol without arguments. */
static void put_symbol(char out[TEXT_BYTES], const char *symbol)
{
	char *name = elfutils_demangle(symbol);

	if (name)
		cut_arguments(name);
	snprintf(out, TEXT_BYTES, "%s", name ? name : symbol);
	free(name);
}

/* The name of a function: C++ has the one with its classes only as a symbol. */
static void put_name(char out[TEXT_BYTES], Dwarf_Die *function, const char *symbol)
{
	Dwarf_Attribute memory;
	const char *linkage = elfutils.dwarf_formstring(
		elfutils.dwarf_attr_integrate(function, DW_AT_linkage_name, &memory));
	const char *name = elfutils.dwarf_diename(function);

	if (linkage && strncmp(linkage, "_Z", 2) == 0)
		put_symbol(out, linkage);
	else if (name)
		snprintf(out, TEXT_BYTES, "%s", name);
	else
		put_symbol(out, symbol ? symbol : "??");
}

/* ---- files ---- */

/* Whether the directories of a path, each with its slash, end with `../`. */
static bool ends_up(const char *begin, const char *end)
{
	return end - begin >= 3 && memcmp(end - 3, "../", 3) == 0 &&
	       (end - begin == 3 || end[-4] == '/');
}

/* Remove `//`, `/./` and `name/..` from a path. */
static void tidy(char *path)
{
	char *begin = path + (*path == '/'), *to = begin;
	const char *from = begin;

	for (bool last = false; !last;) {
		size_t bytes = strcspn(from, "/");
		bool up = bytes == 2 && memcmp(from, "..", 2) == 0;

		last = !from[bytes];
		if (up && to > begin && !ends_up(begin, to)) {
			to--;
			while (to > begin && to[-1] != '/')
				to--;
		} else if (bytes && !(bytes == 1 && *from == '.')) {
			memmove(to, from, bytes);
			to += bytes;
			*to++ = '/';
		}
		from += bytes + 1;
	}
	if (to > begin)
		to--;
	*to = '\0';
}

/* The whole path of a source file.  libdw puts the directory of the compilation before some. */
static void put_file(char out[TEXT_BYTES], Dwarf_Die *unit, const char *file)
{
	Dwarf_Attribute memory;
	const char *directory = elfutils.dwarf_formstring(
		elfutils.dwarf_attr_integrate(unit, DW_AT_comp_dir, &memory));
	size_t bytes = directory ? strlen(directory) : 0;

	if (*file == '/' || !bytes || (strncmp(file, directory, bytes) == 0 && file[bytes] == '/'))
		snprintf(out, TEXT_BYTES, "%s", file);
	else
		snprintf(out, TEXT_BYTES, "%s/%s", directory, file);
	tidy(out);
}

/* ---- frames ---- */

/* Write `FILE(LINE): FUNCTION`, or `PATH: FUNCTION` without a file or line. */
static int put_frame(struct place *place, const char *file, unsigned long line, const char *name,
		     bool inlined)
{
	const struct module *module = place->module;
	char source[TEXT_BYTES], text[3 * TEXT_BYTES], *end;
	int bytes;

	if (file && line)
		put_file(source, place->unit, file);
	bytes = file && line ? snprintf(text, sizeof(text), "%s(%lu): %s%s", source, line, name,
					inlined ? " [inlined]" : "")
			     : snprintf(text, sizeof(text), "%.*s: %s%s", (int)TEXT_BYTES,
					module->path, name, inlined ? " [inlined]" : "");
	if (file && line && module->library && strlen(module->path) < TEXT_BYTES - 16)
		bytes +=
			snprintf(text + bytes, sizeof(text) - (size_t)bytes, " [%s]", module->path);
	if (pfw_buffer_room(place->out, place->out->bytes + 6 * (size_t)bytes + 128))
		return -ENOMEM;
	end = place->out->data + place->out->bytes;
	if (place->begun)
		*end++ = ',';
	end = pfw_json_string(end, text, (size_t)bytes, NULL);
	place->out->bytes = (size_t)(end - place->out->data);
	place->begun = true;
	return 0;
}

/* ---- scopes ---- */

/* Find the functions in `parent` that an address is in. */
static void find_scopes(struct scopes *scopes, Dwarf_Die *parent, Dwarf_Addr pc)
{
	Dwarf_Die child;

	if (++scopes->depth > 4 * DEEP || elfutils.dwarf_child(parent, &child))
		return;
	do {
		int tag = elfutils.dwarf_tag(&child);
		bool function = tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
		unsigned count = scopes->count;

		if (tag == DW_TAG_namespace || tag == DW_TAG_module) {
			find_scopes(scopes, &child, pc);
			if (scopes->count > count)
				return;
			continue;
		}
		if ((!function && tag != DW_TAG_lexical_block && tag != DW_TAG_try_block &&
		     tag != DW_TAG_catch_block) ||
		    elfutils.dwarf_haspc(&child, pc) <= 0)
			continue;
		if (function && scopes->count < DEEP)
			scopes->function[scopes->count++] = child;
		find_scopes(scopes, &child, pc);
		return;
	} while (elfutils.dwarf_siblingof(&child, &child) == 0);
}

static unsigned long number_of(Dwarf_Die *die, unsigned attribute)
{
	Dwarf_Attribute memory;
	Dwarf_Word number;

	return elfutils.dwarf_formudata(elfutils.dwarf_attr(die, attribute, &memory), &number)
		       ? 0
		       : number;
}

/* Where an inlined function was called. */
static const char *call_of(Dwarf_Die *unit, Dwarf_Die *function, unsigned long *line)
{
	unsigned long number = number_of(function, DW_AT_call_file);
	Dwarf_Files *files;
	size_t count;

	*line = number_of(function, DW_AT_call_line);
	return elfutils.dwarf_getsrcfiles(unit, &files, &count) == 0 && number < count
		       ? elfutils.dwarf_filesrc(files, number, NULL, NULL)
		       : NULL;
}

/* The compilation unit of an address; clang lists no addresses of units, so all are tried then. */
static Dwarf_Die *unit_of(const struct module *module, Dwarf_Addr address, Dwarf_Addr *bias)
{
	Dwarf_Die *unit = elfutils.dwfl_module_addrdie(module->elf, address, bias);

	if (unit)
		return unit;
	do
		unit = elfutils.dwfl_module_nextcu(module->elf, unit, bias);
	while (unit && elfutils.dwarf_haspc(unit, address - *bias) <= 0);
	return unit;
}

/* The frames of an address with debug information.  0 or -ENOMEM; place->begun: there are some. */
static int put_scopes(struct place *place)
{
	Dwarf_Line *at = elfutils.dwarf_getsrc_die(place->unit, place->pc);
	const char *file = at ? elfutils.dwarf_linesrc(at, NULL, NULL) : NULL;
	struct scopes scopes = { .count = 0 };
	Dwarf_Die split = { .addr = NULL };
	unsigned long line = 0;
	char name[TEXT_BYTES];
	int number = 0, error = 0;

	if (at && elfutils.dwarf_lineno(at, &number) == 0)
		line = (unsigned long)number;
	place->split = *place->unit;
	if (elfutils.dwarf_cu_info(place->unit->cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) ==
		    0 &&
	    split.addr)
		place->split = split;
	find_scopes(&scopes, &place->split, place->pc);
	for (unsigned i = scopes.count; i > 0 && !error; i--) {
		Dwarf_Die *function = &scopes.function[i - 1];

		put_name(name, function, i == 1 ? place->symbol : NULL);
		error = put_frame(place, file, line, name, i > 1);
		if (i > 1)
			file = call_of(&place->split, function, &line);
	}
	if (scopes.count || !file || !line)
		return error;
	put_symbol(name, place->symbol ? place->symbol : "??"); /* assembler */
	return put_frame(place, file, line, name, false);
}

int frames_of(const struct module *module, uint64_t offset, struct pfw_buffer *out,
	      enum frames_found *found)
{
	/* The call is before the address that it returns to. */
	Dwarf_Addr address = offset - 1 + module->bias, bias = 0;
	struct place place = { .module = module, .out = out };
	char name[TEXT_BYTES];
	GElf_Off from;
	GElf_Sym symbol;
	int error = 0;

	place.symbol = elfutils.dwfl_module_addrinfo(module->elf, address, &from, &symbol, NULL,
						     NULL, NULL);
	place.unit = unit_of(module, address, &bias);
	place.pc = address - bias;
	if (place.unit)
		error = put_scopes(&place);
	*found = place.begun ? FRAMES_LINE : FRAMES_NONE;
	if (error || place.begun || !place.symbol)
		return error;
	*found = FRAMES_FUNCTION;
	put_symbol(name, place.symbol);
	return put_frame(&place, NULL, 0, name, false);
}

#else

int frames_of(const struct module *module, uint64_t offset, struct pfw_buffer *out,
	      enum frames_found *found)
{
	(void)module;
	(void)offset;
	(void)out;
	*found = FRAMES_NONE;
	return 0;
}

#endif
