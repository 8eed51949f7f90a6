/* store/json/walk.h - one pass over the members of an object that a reader has accepted. */
#pragma once

#include "store/json/value.h"

struct pfw_walk {
	const char *at, *end;
};

/* Init with entry.args, or an object or array found in it.  Thread: any, as below. */
static inline void pfw_walk_init(struct pfw_walk *members, const struct pfw_slice *object)
{
	members->at = members->end = object->at; /* of a line without args: NULL */
	if (object->bytes) {
		members->at++;
		members->end += object->bytes;
	}
}

/* The next member; its key is as written.  False at the end. */
bool pfw_walk_next(struct pfw_walk *members, struct pfw_slice *key, struct pfw_value *value);

/* The next element of an array. */
bool pfw_elements_next(struct pfw_walk *members, struct pfw_value *value);

/* Whether a key is this word.  Inlined, so that the length of a constant is a constant. */
__attribute__((always_inline)) static inline bool pfw_member_is(const struct pfw_slice *key,
								const char *word)
{
	size_t bytes = __builtin_strlen(word);

	return key->bytes == bytes && __builtin_memcmp(key->at, word, bytes) == 0;
}
