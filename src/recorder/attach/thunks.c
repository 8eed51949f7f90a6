/* recorder/attach/thunks.c - jumps that stay when the recorder is unloaded: see thunks.h. */
#define PFW_OS_NO_POISON
#include "recorder/attach/thunks.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "common/base/os.h"
#include "common/format/attach.h"
#include "recorder/probe/call_filter.h"
#include "recorder/wrap/calls.h"

#define PLACES (sizeof(((struct pfw_attach_block *)0)->thunks) / sizeof(struct pfw_attach_thunks))
#define THUNK_BYTES 8u
#define PAGE_BYTES 4096u /* pages may be larger; thunks are for x86-64 */

static struct {
	struct pfw_attach_thunks place[PLACES + 1];
	unsigned places;
	bool taken;   /* what earlier attachments have used is known */
	bool mapped;  /* a place is a mapping of ours */
	bool wanting; /* a slot had to do without */
	unsigned used;
	void *code[PFW_CALL_COUNT]; /* NULL: the call has none */
	void *_Atomic *word[PFW_CALL_COUNT];
} thunks;

void pfw_thunks_begin(const struct pfw_attach_thunks *places)
{
	if (thunks.places)
		return;
	while (thunks.places < PLACES && places[thunks.places].count) {
		thunks.place[thunks.places] = places[thunks.places];
		thunks.places++;
	}
	thunks.taken = false;
}

bool pfw_thunks_suffice(void)
{
	return !thunks.wanting;
}

unsigned pfw_thunks_used(bool *mapped)
{
	*mapped = thunks.mapped;
	return thunks.used;
}

static void *_Atomic *word_of(const struct pfw_attach_thunks *place, uint64_t index)
{
	return (void *_Atomic *)(uintptr_t)(place->words + index * sizeof(void *));
}

static void set(unsigned row, const struct pfw_attach_thunks *place, uint64_t index)
{
	thunks.code[row] = (void *)(uintptr_t)(place->code + index * THUNK_BYTES);
	thunks.word[row] = word_of(place, index);
	thunks.used++;
}

static void *const *real_calls(void)
{
	return (void *const *)&pfw_real;
}

/* Words of earlier attachments lead to real calls, which tells whose they are. */
static void take_used(void)
{
	for (unsigned i = 0; i < thunks.places; i++)
		for (uint64_t k = 0; k < thunks.place[i].count; k++) {
			const void *to = atomic_load(word_of(&thunks.place[i], k));

			for (unsigned row = 0; to && row < PFW_CALL_COUNT; row++)
				if (real_calls()[row] == to && !thunks.code[row]) {
					set(row, &thunks.place[i], k);
					break;
				}
		}
	thunks.taken = true;
}

#if defined(__x86_64__)

/* For calls that there was no place for.  Not by pfw_os_mmap(): it stays. */
static bool map_place(void)
{
	struct pfw_attach_thunks *place = &thunks.place[thunks.places];
	static const unsigned char jump[] = { 0xff, 0x25 };
	const uint32_t distance = PAGE_BYTES - sizeof(jump) - sizeof(distance);
	unsigned char *at;
	long code;

	if (thunks.mapped || !thunks.places)
		return false;
	code = pfw_syscall6(SYS_mmap, 0, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code < 0 && code > -4096)
		return false;
	at = memset((void *)code, 0xcc, PAGE_BYTES);
	for (unsigned i = 0; i < PAGE_BYTES / THUNK_BYTES; i++, at += THUNK_BYTES) {
		memcpy(at, jump, sizeof(jump)); /* jmp *distance(%rip) */
		memcpy(at + sizeof(jump), &distance, sizeof(distance));
	}
	if (pfw_os_mprotect((void *)code, PAGE_BYTES, PROT_READ | PROT_EXEC)) {
		pfw_syscall6(SYS_munmap, code, 2 * PAGE_BYTES, 0, 0, 0, 0);
		return false;
	}
	*place = (struct pfw_attach_thunks){ (uint64_t)code, (uint64_t)code + PAGE_BYTES,
					     PAGE_BYTES / THUNK_BYTES };
	thunks.places++;
	thunks.mapped = true;
	return true;
}

#else

static bool map_place(void)
{
	return false;
}

#endif

static bool find_place(unsigned row)
{
	for (unsigned i = 0; i < thunks.places; i++)
		for (uint64_t k = 0; k < thunks.place[i].count; k++)
			if (!atomic_load(word_of(&thunks.place[i], k))) {
				set(row, &thunks.place[i], k);
				return true;
			}
	return false;
}

void pfw_thunks_lead(bool to_wrappers)
{
	if (!thunks.taken)
		take_used();
	for (unsigned row = 0; row < PFW_CALL_COUNT; row++)
		if (thunks.code[row])
			atomic_store(thunks.word[row], to_wrappers && pfw_call_filter_wraps(row)
							       ? pfw_wrappers[row]
							       : real_calls()[row]);
}

void *pfw_thunks_of(unsigned row)
{
	if (!thunks.code[row] && !find_place(row) && !(map_place() && find_place(row))) {
		thunks.wanting = true;
		return pfw_wrappers[row];
	}
	atomic_store(thunks.word[row], pfw_wrappers[row]);
	return thunks.code[row];
}

bool pfw_thunks_is(unsigned row, const void *address)
{
	return thunks.code[row] && thunks.code[row] == address;
}
