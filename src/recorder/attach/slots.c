/* recorder/attach/slots.c - redirects a few calls of other libraries: see slots.h. */
#include "recorder/attach/slots.h"

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/os.h"
#include "recorder/attach/object.h"

/* Write a slot even if the dynamic linker has made it read-only. */
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

/*
 * Redirect a slot that leads to the function, or an unresolved one that leads back into its object.
 */
static void lead(struct pfw_slots *slots, const struct pfw_object *object,
		 const struct pfw_object_slot *slot)
{
	const char *name = object->strings + object->symbols[slot->symbol].st_name;
	void *now, *real;

	if (name[0] != 'c' || name[1] != 'u') /* all of NVIDIA's names begin so */
		return;
	for (unsigned i = 0; i < slots->count; i++) {
		if (strcmp(name, slots->calls[i].name))
			continue;
		slots->found |= 1u << i;
		if (slots->only_find)
			continue;
		now = atomic_load_explicit(slot->word, memory_order_relaxed);
		real = slots->real_of(i);
		if (real &&
		    (now == real || (slot->called && pfw_object_flags(object, (uintptr_t)now))))
			write_slot(object, slot->word, slots->calls[i].wrapper);
	}
}

static bool holds_one(const struct pfw_slots *slots, const struct pfw_object *object)
{
	for (unsigned i = 0; i < slots->count; i++)
		if (pfw_object_flags(object, (uintptr_t)slots->real_of(i)))
			return true;
	return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *user)
{
	struct pfw_slots *slots = user;
	struct pfw_object object;
	struct pfw_object_slot slot;

	(void)size;
	if (!pfw_object_read(&object, info) || holds_one(slots, &object))
		return 0;
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < object.relocation_count[i]; k++)
			if (pfw_object_slot(&object, &object.relocations[i][k], &slot))
				lead(slots, &object, &slot);
	return 0;
}

static int count_adds(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)size;
	*(unsigned long long *)user = info->dlpi_adds;
	return 1;
}

void pfw_slots_look(struct pfw_slots *slots)
{
	unsigned long long adds = 0;

	dl_iterate_phdr(count_adds, &adds);
	if (adds == slots->adds)
		return;
	slots->adds = adds;
	if (slots->loaded)
		slots->loaded();
	dl_iterate_phdr(visit, slots);
}
