/* recorder/gpu/ranges.c - redirects cudaProfilerStart() and cudaProfilerStop(): see ranges.h. */
#include "recorder/gpu/ranges.h"

#include <link.h>
#include <stdint.h>
#include <string.h>

#include "common/base/os.h"
#include "recorder/attach/object.h"

#define NOT_FOUND 999u /* "unknown" in both APIs */

void (*pfw_cupti_ranged)(bool begins);

static uint32_t start_runtime(void);
static uint32_t stop_runtime(void);
static uint32_t start_driver(void);
static uint32_t stop_driver(void);

enum { START_RUNTIME, STOP_RUNTIME, START_DRIVER, STOP_DRIVER, CALLS };

static const struct pfw_slots_call calls[CALLS] = {
	[START_RUNTIME] = { "cudaProfilerStart", (void *)start_runtime },
	[STOP_RUNTIME] = { "cudaProfilerStop", (void *)stop_runtime },
	[START_DRIVER] = { "cuProfilerStart", (void *)start_driver },
	[STOP_DRIVER] = { "cuProfilerStop", (void *)stop_driver },
};

/* ---- finding the functions ---- */

static void *defined_in(const struct pfw_object *object, const char *name)
{
	uint32_t count = pfw_object_symbols(object);

	for (uint32_t i = 0; i < count; i++) {
		const ElfW(Sym) *symbol = &object->symbols[i];

		if (symbol->st_shndx != SHN_UNDEF && symbol->st_value &&
		    ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
		    !strcmp(object->strings + symbol->st_name, name))
			return (void *)(object->base + symbol->st_value);
	}
	return NULL;
}

/* The addresses of all functions as loaded now.  A process has one runtime and one driver, or
 * several copies that do the same. */
static int find(struct dl_phdr_info *info, size_t size, void *user)
{
	void **found = user;
	struct pfw_object object;
	unsigned from;

	(void)size;
	if (!info->dlpi_name || !pfw_object_read(&object, info))
		return 0;
	if (strstr(info->dlpi_name, "libcudart"))
		from = START_RUNTIME;
	else if (strstr(info->dlpi_name, "libcuda.so"))
		from = START_DRIVER;
	else
		return 0;
	for (unsigned i = from; i < from + 2; i++)
		if (!found[i])
			found[i] = defined_in(&object, calls[i].name);
	return 0;
}

static void *at_look[CALLS];

static void *real_of(unsigned which)
{
	return at_look[which];
}

static void find_all(void)
{
	memset(at_look, 0, sizeof(at_look));
	dl_iterate_phdr(find, at_look);
}

void pfw_cupti_ranges_look(void)
{
	static struct pfw_slots slots = {
		.calls = calls, .count = CALLS, .real_of = real_of, .loaded = find_all
	};

	pfw_slots_look(&slots);
}

/* ---- the calls, as the program makes them ---- */

/* Looked up at each call: the library of the last call may have been unloaded. */
static uint32_t call(unsigned which)
{
	void *found[CALLS] = { NULL };
	uint32_t (*real)(void);

	dl_iterate_phdr(find, found);
	if (!found[which])
		return NOT_FOUND;
	memcpy(&real, &found[which], sizeof(real));
	return real();
}

static uint32_t start(unsigned which)
{
	uint32_t result = call(which);

	if (!result)
		pfw_cupti_ranged(true);
	return result;
}

static uint32_t stop(unsigned which)
{
	pfw_cupti_ranged(false);
	return call(which);
}

static uint32_t start_runtime(void)
{
	return start(START_RUNTIME);
}

static uint32_t stop_runtime(void)
{
	return stop(STOP_RUNTIME);
}

static uint32_t start_driver(void)
{
	return start(START_DRIVER);
}

static uint32_t stop_driver(void)
{
	return stop(STOP_DRIVER);
}
