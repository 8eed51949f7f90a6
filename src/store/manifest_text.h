/* manifest_text.h - a manifest as it was written, by whomever: looked at before anything in it is
 * believed. */
#ifndef PFW_MANIFEST_TEXT_H
#define PFW_MANIFEST_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jsonread.h"

struct pfw_manifest_text {
	char *json;
	struct pfw_slice whole; /* the object */
};

/* Read one.  Return 0, for pfw_manifest_text_free(), or -errno; -EBADMSG: it is none, or of a format
 * that is not known, with one line in `why`.  Thread: any, as all here. */
int pfw_manifest_text_read(struct pfw_manifest_text *text, const char *path, char *why,
			   size_t size);
void pfw_manifest_text_free(struct pfw_manifest_text *text);

/* Begin a list of it, `files` or `processes`.  Return whether there is one. */
bool pfw_manifest_text_list(const struct pfw_manifest_text *text, const char *key,
			    struct pfw_reader *list);

/* The next item of it; false behind the last. */
bool pfw_manifest_text_next(struct pfw_reader *list, struct pfw_value *item);

/* A member of an object: a number, or a string that is neither empty nor does not fit. */
bool pfw_manifest_text_u64(const struct pfw_slice *object, const char *key, uint64_t *number);
bool pfw_manifest_text_string(const struct pfw_slice *object, const char *key, char *out,
			      size_t size);

/* Whether a file's name leads out of the manifest's directory: whoever wrote it must not have us look
 * at somebody else's files. */
bool pfw_manifest_text_leads_out(const char *name);

#endif
