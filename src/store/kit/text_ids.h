/* store/kit/text_ids.h - numbers texts (file names of a block or a rank) in order of first use. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "store/kit/arena.h"
#include "store/kit/hash.h"

/* All zero: empty. */
struct pfw_text_ids {
	struct pfw_text_id {
		const char *text;
		uint32_t bytes, hash; /* of the text alone */
		int64_t of;
	} * name;
	uint32_t count;
	size_t room;
	struct pfw_hash_slots slots; /* number + 1 */
	struct pfw_arena texts;
};

/* The number of this text within the group `of`, mostly a rank; a new text gets the next number.
 * -ENOMEM.  Thread: one at a time. */
int64_t pfw_text_ids_of(struct pfw_text_ids *names, int64_t of, const char *text, size_t bytes);

/* Append a text of a table that hashes as this one, without a search or a copy, for the next two. */
int64_t pfw_text_ids_lend(struct pfw_text_ids *names, int64_t of, const char *text, uint32_t bytes,
			  uint32_t hash);

/* The number of the text of another struct, as pfw_text_ids_of(). */
int64_t pfw_text_ids_like(struct pfw_text_ids *names, int64_t of, const struct pfw_text_id *text);

/* Its number, or -ENOENT.  Thread: any, while no thread adds. */
int64_t pfw_text_ids_find(const struct pfw_text_ids *names, int64_t of, const char *text,
			  size_t bytes);

/* Store into number[] the numbers of all texts of `from`, as texts of group `of`. 0 or -ENOMEM. */
int pfw_text_ids_map(struct pfw_text_ids *names, int64_t of, const struct pfw_text_ids *from,
		     uint32_t *number);

/* Forget the numbers, but keep the texts; then number them again, or beginnings of them, in order: no more than
 * there were. */
void pfw_text_ids_forget(struct pfw_text_ids *names);
uint32_t pfw_text_ids_again(struct pfw_text_ids *names, const char *text, uint32_t bytes);

/* Empty it; the memory is kept for reuse. */
void pfw_text_ids_clear(struct pfw_text_ids *names);
void pfw_text_ids_release(struct pfw_text_ids *names);
