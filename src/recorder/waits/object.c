/* recorder/waits/object.c - names what a thread waits for; see waits.h. */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "common/base/text.h"
#include "recorder/waits/waits.h"

static struct {
	/* glibc 2.35's, which takes no lock: a thread may wait inside of dlopen(), or in a handler.
	 * dladdr() would take the lock of the dynamic linker.  NULL: addresses only. */
	int (*find)(void *address, struct dl_find_object *object);
	char program[64];
} names;

void pfw_wait_name_init(const char *exe)
{
	struct pfw_text text;

	pfw_text_init(&text, names.program, sizeof(names.program));
	pfw_text_add(&text, exe ? pfw_text_base(exe) : "");
	names.find =
		(int (*)(void *, struct dl_find_object *))dlsym(RTLD_DEFAULT, "_dl_find_object");
	if (!names.find)
		dlerror(); /* clear the error: an older glibc has none */
}

static void add_hex(struct pfw_text *text, uintptr_t value)
{
	char digits[2 * sizeof(value)];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[value & 15];
		value >>= 4;
	} while (value);
	pfw_text_add(text, "0x");
	pfw_text_add_bytes(text, digits + at, sizeof(digits) - at);
}

size_t pfw_wait_name(const char *kind, uintptr_t address, char name[PFW_WAIT_NAME_BYTES])
{
	struct dl_find_object object;
	struct pfw_text text;
	const char *file;

	pfw_text_init(&text, name, PFW_WAIT_NAME_BYTES - 32); /* the rest for the number */
	PFW_TEXT_ADD(&text, kind, ":[");
	if (names.find && names.find((void *)address, &object) == 0) {
		file = object.dlfo_link_map->l_name;
		PFW_TEXT_ADD(&text, *file ? pfw_text_base(file) : names.program, "+");
		address -= object.dlfo_link_map->l_addr;
	}
	text.end = name + PFW_WAIT_NAME_BYTES - 1;
	add_hex(&text, address);
	pfw_text_add(&text, "]");
	return (size_t)(text.at - text.start);
}
