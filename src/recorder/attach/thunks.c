/* recorder/attach/thunks.c - jumps that stay when the recorder is unloaded: see thunks.h. */
#define PFW_OS_NO_POISON
#include "recorder/attach/thunks.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/os.h"
#include "common/calls/table.h"
#include "recorder/probe/call_filter.h"
#include "recorder/wrap/calls.h"

#define PLACE_BYTES 4096u /* pages may be larger; attach.c is for x86-64 */
#define THUNK_BYTES 16u
#define CODE_BYTES ((PFW_CALL_COUNT * THUNK_BYTES + PLACE_BYTES - 1) / PLACE_BYTES * PLACE_BYTES)

/* Behind the code. */
struct words {
	uint64_t names; /* a hash of all calls: the thunks of another version are not ours */
	void *_Atomic to[PFW_CALL_COUNT];
};
#define ALL_BYTES \
	(CODE_BYTES + (sizeof(struct words) + PLACE_BYTES - 1) / PLACE_BYTES * PLACE_BYTES)

static unsigned char *place;

static struct words *words_of(unsigned char *thunks)
{
	return (struct words *)(void *)(thunks + CODE_BYTES);
}

static uint64_t hash_names(void)
{
	uint64_t hash = 14695981039346656037ull;
	size_t count;
	const struct pfw_call_info *info = pfw_calls_info(&count);

	for (size_t row = 0; row < count; row++)
		for (size_t i = 0; i < sizeof(info->name); i++)
			hash = (hash ^ (unsigned char)info[row].name[i]) * 1099511628211ull;
	return hash;
}

#if defined(__x86_64__)

static void write_code(unsigned char *thunks)
{
	memset(thunks, 0xcc, CODE_BYTES);
	for (unsigned row = 0; row < PFW_CALL_COUNT; row++) {
		static const unsigned char code[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25 };
		unsigned char *at = thunks + (size_t)row * THUNK_BYTES;
		size_t next = (size_t)row * THUNK_BYTES + sizeof(code) + 4;
		size_t word = CODE_BYTES + offsetof(struct words, to) + row * sizeof(void *);
		uint32_t distance = (uint32_t)(word - next);

		memcpy(at, code, sizeof(code)); /* endbr64; jmp *distance(%rip) */
		memcpy(at + sizeof(code), &distance, sizeof(distance));
	}
}

/* Not by pfw_os_mmap(): it stays. */
static unsigned char *make(void)
{
	long at = pfw_syscall6(SYS_mmap, 0, ALL_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at < 0 && at > -4096)
		return NULL;
	write_code((unsigned char *)at);
	words_of((unsigned char *)at)->names = hash_names();
	if (!pfw_os_mprotect((void *)at, CODE_BYTES, PROT_READ | PROT_EXEC))
		return (unsigned char *)at;
	pfw_syscall6(SYS_munmap, at, ALL_BYTES, 0, 0, 0, 0);
	return NULL;
}

#else

static unsigned char *make(void)
{
	return NULL;
}

#endif

bool pfw_thunks_begin(void *earlier)
{
	if (!place && earlier && words_of(earlier)->names == hash_names())
		place = earlier;
	if (!place)
		place = make();
	return place != NULL;
}

void *pfw_thunks_place(void)
{
	return place;
}

void pfw_thunks_lead(bool to_wrappers)
{
	void *const *real = (void *const *)&pfw_real;

	for (unsigned row = 0; place && row < PFW_CALL_COUNT; row++)
		atomic_store(&words_of(place)->to[row], to_wrappers && pfw_call_filter_wraps(row)
								? pfw_wrappers[row]
								: real[row]);
}

void *pfw_thunks_of(unsigned row)
{
	return place ? place + (size_t)row * THUNK_BYTES : pfw_wrappers[row];
}
