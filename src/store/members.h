/* members.h - the members of an object that a reader has accepted, one after the other, fast.
 *
 * For who wants several of them: one pass, where pfw_entry_arg() would be one a key.
 */
#ifndef PFW_MEMBERS_H
#define PFW_MEMBERS_H

#include "entry.h"

struct pfw_members {
	const char *at, *end;
};

/* Of entry.args, or an object found in it.  Thread: any, as below. */
static inline void pfw_members_init(struct pfw_members *members, const struct pfw_slice *object)
{
	members->at = object->at + (object->bytes > 0);
	members->end = object->at + object->bytes;
}

/* The next one: its key as it is written, and its value.  False at the end. */
bool pfw_members_next(struct pfw_members *members, struct pfw_slice *key, struct pfw_value *value);

/* The same of an array's elements: init with the array. */
bool pfw_elements_next(struct pfw_members *members, struct pfw_value *value);

/* Whether a key is this word.  For constants: their length is one, too. */
__attribute__((always_inline)) static inline bool pfw_member_is(const struct pfw_slice *key,
								const char *word)
{
	size_t bytes = __builtin_strlen(word);

	return key->bytes == bytes && __builtin_memcmp(key->at, word, bytes) == 0;
}

#endif
