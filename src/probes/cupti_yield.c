/* cupti_yield.c - another client of CUPTI in the same process. */
#include "cupti_yield.h"

#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "../os.h"
#include "cupti_lib.h"
#include "object.h"

struct pfw_cupti_yield_host pfw_cupti_yield_host;

static struct {
	_Atomic uint64_t kinds; /* bit n: the other client has kind n enabled */
	pfw_cupti_completed *_Atomic completed;
	unsigned long long adds; /* of objects, as they were at the last look */
} other;

bool pfw_cupti_yield_taken(void)
{
	return atomic_load(&other.kinds) != 0;
}

bool pfw_cupti_yield_theirs(uint32_t kind)
{
	return kind < 64 && atomic_load(&other.kinds) & 1ull << kind;
}

void pfw_cupti_yield_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			       size_t valid_bytes)
{
	pfw_cupti_completed *completed = atomic_load(&other.completed);

	if (completed)
		completed(context, stream, buffer, bytes, valid_bytes);
}

/* ---- the calls, as the other client makes them ---- */

static uint32_t register_callbacks(pfw_cupti_requested *requested, pfw_cupti_completed *completed)
{
	pfw_cupti_yield_host.yield();
	atomic_store(&other.completed, completed);
	return pfw_cupti_lib.calls.ActivityRegisterCallbacks(requested, completed);
}

static uint32_t enable(uint32_t kind)
{
	uint32_t result = pfw_cupti_lib.calls.ActivityEnable(kind);

	if (!result && kind < 64)
		atomic_fetch_or(&other.kinds, 1ull << kind);
	return result;
}

static uint32_t disable(uint32_t kind)
{
	uint64_t bit = kind < 64 ? 1ull << kind : 0, before;
	uint32_t result = pfw_cupti_lib.calls.ActivityDisable(kind);

	before = atomic_fetch_and(&other.kinds, ~bit);
	if (before & bit && before == bit)
		pfw_cupti_yield_host.come_back();
	else if (pfw_cupti_yield_host.ours(kind))
		pfw_cupti_lib.calls.ActivityEnable(kind);
	return result;
}

/* ---- leading them here ---- */

static const struct {
	const char *name;
	void *wrapper;
} names[] = {
	{ "cuptiActivityRegisterCallbacks", (void *)register_callbacks },
	{ "cuptiActivityEnable", (void *)enable },
	{ "cuptiActivityDisable", (void *)disable },
};

static void *real_of(unsigned which)
{
	const struct pfw_cupti_calls *calls = &pfw_cupti_lib.calls;

	return which == 0   ? *(void *const *)&calls->ActivityRegisterCallbacks
	       : which == 1 ? *(void *const *)&calls->ActivityEnable
			    : *(void *const *)&calls->ActivityDisable;
}

/* Write a slot, also where the dynamic linker has made it read-only. */
static void write_slot(const struct pfw_object *object, void *_Atomic *word, void *to)
{
	uintptr_t page = (uintptr_t)word & ~(pfw_os_page_bytes() - 1);
	bool closed = (uintptr_t)word >= object->relro && (uintptr_t)word < object->relro_end;

	if (closed && pfw_os_mprotect((void *)page, pfw_os_page_bytes(), PROT_READ | PROT_WRITE))
		return;
	atomic_store_explicit(word, to, memory_order_release);
	if (closed)
		pfw_os_mprotect((void *)page, pfw_os_page_bytes(), PROT_READ);
}

/* A slot that leads to the library's call, or is not resolved yet and leads back into its object. */
static void lead(const struct pfw_object *object, const struct pfw_object_slot *slot)
{
	const char *name = object->strings + object->symbols[slot->symbol].st_name;
	void *now = atomic_load_explicit(slot->word, memory_order_relaxed);

	if (strncmp(name, "cuptiActivity", 13))
		return;
	for (unsigned i = 0; i < PFW_ARRAY_LEN(names); i++)
		if (!strcmp(name, names[i].name) &&
		    (now == real_of(i) ||
		     (slot->called && pfw_object_flags(object, (uintptr_t)now))))
			write_slot(object, slot->word, names[i].wrapper);
}

static int visit(struct dl_phdr_info *info, size_t size, void *user)
{
	struct pfw_object object;
	struct pfw_object_slot slot;

	(void)size;
	(void)user;
	/* The library calls itself as it likes. */
	if (!pfw_object_read(&object, info) || pfw_object_flags(&object, (uintptr_t)real_of(0)))
		return 0;
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < object.relocation_count[i]; k++)
			if (pfw_object_slot(&object, &object.relocations[i][k], &slot))
				lead(&object, &slot);
	return 0;
}

static int count_adds(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)size;
	*(unsigned long long *)user = info->dlpi_adds;
	return 1;
}

void pfw_cupti_yield_look(void)
{
	unsigned long long adds = 0;

	dl_iterate_phdr(count_adds, &adds);
	if (adds == other.adds)
		return;
	other.adds = adds;
	dl_iterate_phdr(visit, NULL);
}
