/* store/line/io.c - the table of I/O calls by name; see io.h. */
#include "store/line/io.h"

#include <pthread.h>
#include <string.h>

/* Open-addressed hash table of the rows of calls.def by libc's name: 1 + the index of a row, 0 =
 * free.  Each canonical name is also the name of a row. */
#define SLOTS (2 * PFW_CALLS_MAX)
static uint16_t slot[SLOTS];

static size_t slot_of(const char *name, size_t bytes)
{
	return pfw_hash_text(0, name, bytes) % SLOTS;
}

static void fill(void)
{
	size_t count, at;
	const struct pfw_call_info *info = pfw_calls_info(&count);

	for (size_t i = 0; i < count; i++) {
		for (at = slot_of(info[i].name, strlen(info[i].name)); slot[at];)
			at = (at + 1) % SLOTS;
		slot[at] = (uint16_t)(i + 1);
	}
}

static bool is(const char *text, size_t bytes, const char *word)
{
	return bytes && *text == *word && strlen(word) == bytes && memcmp(text, word, bytes) == 0;
}

static const struct pfw_call_info *find(const char *name, size_t bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	size_t count;
	const struct pfw_call_info *info = pfw_calls_info(&count);

	pthread_once(&once, fill);
	for (size_t at = slot_of(name, bytes); slot[at]; at = (at + 1) % SLOTS) {
		if (is(name, bytes, info[slot[at] - 1].name))
			return &info[slot[at] - 1];
	}
	return NULL;
}

struct pfw_io_call pfw_io_call_find(const char *cat, size_t cat_bytes, const char *name,
				    size_t name_bytes)
{
	struct pfw_io_call call = { .role = PFW_ROLE_NONE, .moves = PFW_MOVES_NOTHING };
	const struct pfw_call_info *info;

	if (is(cat, cat_bytes, "PP"))
		call.moves = PFW_MOVES_BYTES;
	if (!is(cat, cat_bytes, "POSIX") && !is(cat, cat_bytes, "STDIO") &&
	    !is(cat, cat_bytes, "NET") && !is(cat, cat_bytes, "SYNC"))
		return call;
	info = find(name, name_bytes);
	if (!info)
		return (struct pfw_io_call){ .role = PFW_ROLE_OTHER };
	return (struct pfw_io_call){ .role = info->role, .moves = info->moves };
}

const char *pfw_io_call_cat(const char *name, size_t bytes)
{
	const struct pfw_call_info *info = find(name, bytes);

	return info ? info->category : "POSIX";
}

struct pfw_io_call pfw_io_call_named(const struct pfw_slice *name)
{
	char plain[64]; /* longer than the name of any call */

	if (!name->escaped)
		return pfw_io_call_find("POSIX", 5, name->at, name->bytes);
	return pfw_io_call_find("POSIX", 5, plain, pfw_slice_decode(name, plain, sizeof(plain)));
}

void pfw_io_calls_learn(struct pfw_io_known *known, const struct pfw_slice *name)
{
	memcpy(known->name, name->at, name->bytes);
	known->bytes = (uint8_t)name->bytes;
	known->call = pfw_io_call_named(name);
}

bool pfw_memory_moved(const struct pfw_entry *entry, uint64_t *bytes)
{
	struct pfw_args args;
	struct pfw_slice key;
	struct pfw_value kind, value;

	*bytes = 0;
	/* The recorder writes the kind first. */
	pfw_args_init(&args, entry);
	if (!(pfw_args_next(&args, &key, &kind) && pfw_member_is(&key, "kind")) &&
	    !pfw_entry_arg(entry, "kind", &kind))
		return false;
	if (!pfw_slice_is(&kind.text, "memcpy") && !pfw_slice_is(&kind.text, "memset") &&
	    !pfw_slice_is(&kind.text, "memory"))
		return false;
	return pfw_entry_arg(entry, "bytes", &value) && pfw_value_u64(&value, bytes);
}

bool pfw_io_summed(const struct pfw_entry *entry, struct pfw_io_sums *sums)
{
	int64_t bytes = pfw_arg_i64(entry, "bytes", 0);
	struct pfw_value value;

	if (!pfw_entry_arg(entry, "count", &value) || !pfw_value_u64(&value, &sums->calls) ||
	    !pfw_entry_arg(entry, "dur", &value) || !pfw_value_ns(&value, &sums->ns))
		return false;
	sums->ns = sums->ns > 0 ? sums->ns : 0;
	sums->bytes = bytes > 0 ? bytes : 0;
	return true;
}
