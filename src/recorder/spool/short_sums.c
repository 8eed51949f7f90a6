/* recorder/spool/short_sums.c - sums of short calls per name and file, in the spool. */
#include "recorder/spool/short_sums.h"

#include <string.h>

#include "common/encode/own_lines.h"
#include "recorder/spool/strings.h"

#define WINDOW 16u /* entries that a hash may be in */

static uint64_t load(const _Atomic uint64_t *figure)
{
	return atomic_load_explicit(figure, memory_order_relaxed);
}

static void store(_Atomic uint64_t *figure, uint64_t value)
{
	atomic_store_explicit(figure, value, memory_order_relaxed);
}

/* `count` last, with release: a reader that sees it sees the others. */
static void copy(struct pfw_sum_figures *to, const struct pfw_sum_figures *from)
{
	store(&to->failed, load(&from->failed));
	store(&to->ticks, load(&from->ticks));
	store(&to->bytes, load(&from->bytes));
	atomic_store_explicit(&to->count, load(&from->count), memory_order_release);
}

/* ---- owner ---- */

/* Hashes call, length and last 24 bytes of the name: files of one directory differ at the end. */
static uint32_t hash_of(uint16_t call, const struct pfw_sum_name *name)
{
	char tail[24] = { 0 };
	size_t bytes = name->bytes < sizeof(tail) ? name->bytes : sizeof(tail);
	size_t left = sizeof(tail) - bytes, all = name->bytes;
	uint64_t word[3], hash;

	memcpy(tail + left, name->text + name->bytes - bytes, bytes);
	if (name->directory_bytes) {
		all += 1 + name->directory_bytes;
		if (left)
			tail[--left] = '/';
		bytes = name->directory_bytes < left ? name->directory_bytes : left;
		memcpy(tail + left - bytes, name->directory + name->directory_bytes - bytes, bytes);
	}
	memcpy(word, tail, sizeof(word));
	hash = (word[0] * 0x9e3779b97f4a7c15u) ^ (word[1] * 0xc2b2ae3d27d4eb4fu);
	hash = (hash ^ (hash >> 29) ^ word[2] ^ (uint64_t)call << 48 ^ all) * 0xbf58476d1ce4e5b9u;
	return (uint32_t)(hash >> 32);
}

static bool same_text(uint32_t ref, const struct pfw_sum_name *name)
{
	size_t before = name->directory_bytes ? name->directory_bytes + 1 : 0;
	uint32_t bytes = 0;
	const char *text = ref ? pfw_strings_text(ref, &bytes) : "";

	return text && bytes == before + name->bytes &&
	       !memcmp(text, name->directory_bytes ? name->directory : "", name->directory_bytes) &&
	       (!before || text[before - 1] == '/') &&
	       !memcmp(text + before, name->text, name->bytes);
}

/* Whether all calls of the entry are in the trace by both header slots. */
static bool is_clean(const struct pfw_sum *sum)
{
	uint64_t count = load(&sum->now[load(&sum->turn) & 1].count);

	/* Pairs with the release in copy(): the writer is done with the entry. */
	return atomic_load_explicit(&sum->saved[0].count, memory_order_acquire) == count &&
	       atomic_load_explicit(&sum->saved[1].count, memory_order_acquire) == count;
}

/* Give the entry to another call or file. */
static void take(struct pfw_sums_chunk *sums, struct pfw_sum *sum, uint16_t call, uint32_t name,
		 uint32_t hash)
{
	static const struct pfw_sum_figures none;
	uint32_t life = atomic_load_explicit(&sum->life, memory_order_relaxed);

	if (life & 1) {
		atomic_store_explicit(&sum->life, ++life, memory_order_relaxed);
		atomic_thread_fence(memory_order_release);
		for (unsigned i = 0; i < PFW_SUMS_SEEN; i++)
			if (sums->seen[i].entry == sum - sums->sum + 1)
				sums->seen[i].entry = 0;
		pfw_string_drop(sum->name);
	}
	for (unsigned i = 0; i < 2; i++) {
		copy(&sum->now[i], &none);
		copy(&sum->saved[i], &none);
	}
	copy(&sum->reported, &none);
	store(&sum->turn, 0);
	__atomic_store_n(&sum->call, call, __ATOMIC_RELAXED);
	__atomic_store_n(&sum->name, name, __ATOMIC_RELAXED);
	sum->hash = hash;
	atomic_store_explicit(&sum->life, life + 1, memory_order_release);
	atomic_store_explicit(&sums->filled, 1, memory_order_relaxed);
}

/* The entry of a call on a name, new if need be; NULL = no room. */
static struct pfw_sum *find(struct pfw_sums_chunk *sums, uint16_t call,
			    const struct pfw_sum_name *name)
{
	uint32_t hash = hash_of(call, name), ref = 0;
	struct pfw_sum *room = NULL;

	for (uint32_t i = 0; i < WINDOW; i++) {
		struct pfw_sum *sum = &sums->sum[(hash + i) % PFW_SUMS];
		bool used = atomic_load_explicit(&sum->life, memory_order_relaxed) & 1;

		if (used && sum->hash == hash && sum->call == call && same_text(sum->name, name))
			return sum;
		if (!room && (!used || is_clean(sum)))
			room = sum;
	}
	if (!room)
		return NULL;
	if (name->bytes + name->directory_bytes)
		ref = name->ref && pfw_string_hold(name->ref)
			      ? name->ref
			      : pfw_string_create(name->directory, name->directory_bytes,
						  name->text, name->bytes);
	if (!ref && name->bytes + name->directory_bytes)
		return NULL;
	take(sums, room, call, ref, hash);
	return room;
}

/* Look up by the string of a descriptor: a cache of recent finds avoids comparing the text. */
static struct pfw_sum *find_ref(struct pfw_sums_chunk *sums, uint16_t call, uint32_t ref)
{
	struct pfw_sum_seen *seen = &sums->seen[(ref * 31 + call) % PFW_SUMS_SEEN];
	struct pfw_sum_name name = { .ref = ref, .text = "" };
	struct pfw_sum *sum;
	uint32_t bytes = 0;

	if (seen->entry && seen->name == ref && seen->call == call)
		return &sums->sum[seen->entry - 1];
	/* Hold it while reading: another thread may close the descriptor. */
	if (ref && !pfw_string_hold(ref))
		return NULL;
	if (ref) {
		name.text = pfw_strings_text(ref, &bytes);
		name.bytes = bytes;
	}
	sum = name.text ? find(sums, call, &name) : NULL;
	pfw_string_drop(ref);
	if (sum)
		*seen = (struct pfw_sum_seen){ ref, call, (uint16_t)(sum - sums->sum + 1) };
	return sum;
}

static void add(struct pfw_sum *sum, const struct pfw_sum_call *call)
{
	uint64_t turn = load(&sum->turn);
	const struct pfw_sum_figures *now = &sum->now[turn & 1];
	struct pfw_sum_figures *next = &sum->now[(turn + 1) & 1];

	/* Pairs with the fence in pfw_summed_since(): a reader that sees any store below also sees
	 * the last turn, and reads again. */
	atomic_thread_fence(memory_order_release);
	store(&next->count, load(&now->count) + 1);
	store(&next->failed, load(&now->failed) + call->failed);
	store(&next->ticks, load(&now->ticks) + call->ticks);
	store(&next->bytes, load(&now->bytes) + call->bytes);
	/* Writer and recovery see all four stores or none. */
	atomic_store_explicit(&sum->turn, turn + 1, memory_order_release);
}

bool pfw_sums_add(struct pfw_sums_chunk *sums, const struct pfw_sum_call *call,
		  const struct pfw_sum_name *name)
{
	struct pfw_sum *sum;

	/* Only our signal handlers get here: order is needed, a locked instruction is not. */
	if (atomic_load_explicit(&sums->busy, memory_order_relaxed))
		return false;
	atomic_store_explicit(&sums->busy, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	sum = name->bytes + name->directory_bytes ? find(sums, call->call, name)
						  : find_ref(sums, call->call, name->ref);
	if (sum)
		add(sum, call);
	else
		store(&sums->beyond, load(&sums->beyond) + 1);
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&sums->busy, 0, memory_order_relaxed);
	return sum != NULL;
}

void pfw_sums_taken(struct pfw_sums_chunk *sums)
{
	/* A signal handler may have jumped out of pfw_sums_add() of the last owner. */
	if (sums)
		atomic_store_explicit(&sums->busy, 0, memory_order_relaxed);
}

/* ---- writer ---- */

bool pfw_sums_next(struct pfw_sums_chunk *sums, uint32_t *at, struct pfw_sum_news *news)
{
	for (; *at < PFW_SUMS; ++*at) {
		struct pfw_sum *sum = &sums->sum[*at];
		uint32_t life = atomic_load_explicit(&sum->life, memory_order_acquire);

		if (!(life & 1) || !pfw_summed_since(sum, &sum->reported, news))
			continue;
		news->call = __atomic_load_n(&sum->call, __ATOMIC_RELAXED);
		news->name = __atomic_load_n(&sum->name, __ATOMIC_RELAXED);
		atomic_thread_fence(memory_order_acquire);
		/* Given to another file meanwhile: a later call reports that one. */
		if (atomic_load_explicit(&sum->life, memory_order_relaxed) != life)
			continue;
		/* The owner does not reuse the entry until both header slots include this. */
		store(&sum->reported.failed, load(&sum->reported.failed) + news->failed);
		store(&sum->reported.ticks, load(&sum->reported.ticks) + news->ticks);
		store(&sum->reported.bytes, load(&sum->reported.bytes) + news->bytes);
		store(&sum->reported.count, load(&sum->reported.count) + news->count);
		sum->due = 2;
		sums->due = 2;
		return true;
	}
	return false;
}

void pfw_sums_save(struct pfw_sums_chunk *sums, unsigned parity)
{
	if (!sums->due)
		return;
	sums->due--;
	for (struct pfw_sum *sum = sums->sum; sum < sums->sum + PFW_SUMS; sum++) {
		if (!sum->due)
			continue;
		/* Before the last copy, which lets the owner reuse the entry. */
		sum->due--;
		copy(&sum->saved[parity], &sum->reported);
	}
}
