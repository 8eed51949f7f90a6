/* pickle.h - Python's pickles of plain data: dicts, lists, texts and numbers; nothing is ever run. */
#ifndef PFW_PICKLE_H
#define PFW_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pfw_pickle_kind {
	PFW_PICKLE_NONE,
	PFW_PICKLE_WHOLE, /* a truth value, too: 0 or 1 */
	PFW_PICKLE_FLOAT,
	PFW_PICKLE_TEXT, /* and bytes */
	PFW_PICKLE_LIST, /* and tuples */
	PFW_PICKLE_DICT,
};

struct pfw_pickle_value {
	enum pfw_pickle_kind kind;
	uint32_t bytes; /* of a text */
	union {
		int64_t whole; /* of what is more than fits: its lowest 64 bits */
		double number;
		const char *text; /* not terminated */
		struct pfw_pickle_items *items;
	};
};

/* Of a dict: a key, its value, the next key.  One may hold itself, or be in several. */
struct pfw_pickle_items {
	struct pfw_pickle_value *item;
	size_t count, room;
	struct pfw_pickle_items *next; /* of all */
};

struct pfw_pickle {
	struct pfw_pickle_value root;
	char why[200]; /* what is wrong with it, at which byte */
	char *data;    /* the file */
	size_t bytes;
	struct pfw_pickle_items *all;
};

/* Whether the file begins as a pickle does, of protocol 2 or later. */
bool pfw_pickle_is(const char *path);

/* Read a file.  0; -EINVAL, with `why`, where it is no pickle of plain data; or -errno.  Takes some 8
 * times the file's size in memory with what torch writes, 100 times at worst.  Release it in any case.
 * Thread: any; one at a time for one pickle, as all here. */
int pfw_pickle_open(struct pfw_pickle *pickle, const char *path);

/* The same of bytes, made by malloc(), which it frees from now on. */
int pfw_pickle_parse(struct pfw_pickle *pickle, char *data, size_t bytes);
void pfw_pickle_release(struct pfw_pickle *pickle);

/* What a dict has for that key, among its last 256: those of snapshots have a dozen.  NULL: nothing, or it
 * is no dict. */
const struct pfw_pickle_value *pfw_pickle_get(const struct pfw_pickle_value *dict, const char *key);

/* Whether it is that text. */
bool pfw_pickle_text_is(const struct pfw_pickle_value *value, const char *text);

#endif
