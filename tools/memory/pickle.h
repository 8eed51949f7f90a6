/* tools/memory/pickle.h - reads Python's pickles of plain data and runs no code. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pfw_pickle_kind {
	PFW_PICKLE_NONE,
	PFW_PICKLE_WHOLE, /* also a truth value: 0 or 1 */
	PFW_PICKLE_FLOAT,
	PFW_PICKLE_TEXT, /* and bytes */
	PFW_PICKLE_LIST, /* and tuples */
	PFW_PICKLE_DICT,
};

struct pfw_pickle_value {
	enum pfw_pickle_kind kind;
	uint32_t bytes; /* of a text */
	union {
		int64_t whole; /* its lowest 64 bits */
		double number;
		const char *text; /* not terminated */
		struct pfw_pickle_items *items;
	};
};

/* A dict has a key, its value, the next key etc.  A list may contain itself, or be in several. */
struct pfw_pickle_items {
	struct pfw_pickle_value *item;
	size_t count, room;
	struct pfw_pickle_items *next; /* of all of the pickle */
	int64_t note; /* its reader's, at first 0: what it found, since one may be in many places */
};

struct pfw_pickle {
	struct pfw_pickle_value root;
	char why[200]; /* the first error, with its byte */
	char *data;    /* the file */
	size_t bytes;
	struct pfw_pickle_items *all;
};

/* Whether the file begins like a pickle of protocol 2 or later. */
bool pfw_pickle_is(const char *path);

/* Read a file.  0; -EINVAL with `why` if it is no pickle of plain data; or -errno.  Takes about 8
 * times the file's size in memory for torch's snapshots, 100 times at worst.  The caller releases
 * the pickle in any case.  Thread: any; one at a time for one pickle, as all here. */
int pfw_pickle_open(struct pfw_pickle *pickle, const char *path);

/* The same from bytes made by malloc(), which the pickle owns and frees. */
int pfw_pickle_parse(struct pfw_pickle *pickle, char *data, size_t bytes);
void pfw_pickle_release(struct pfw_pickle *pickle);

/* The value of a key among the last 64 of a dict; dicts of snapshots have a dozen.  NULL: no such
 * key, or no dict. */
const struct pfw_pickle_value *pfw_pickle_get(const struct pfw_pickle_value *dict, const char *key);

bool pfw_pickle_text_is(const struct pfw_pickle_value *value, const char *text);
