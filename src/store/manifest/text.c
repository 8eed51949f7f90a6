/* store/manifest/text.c - reads the text of a manifest; see internal.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/manifest/internal.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"

#define MANIFEST_MAX (256u << 20)

int pfw_manifest_text_read(struct pfw_manifest_text *text, const char *path, char *why, size_t size)
{
	size_t bytes;
	char *json;
	int fd = pfw_open_file(path, PFW_OPEN_LINK, NULL);
	int error = fd < 0 ? fd : pfw_full_read_file(fd, MANIFEST_MAX, &json, &bytes);

	if (fd >= 0)
		close(fd);
	return error ?: pfw_manifest_text_take(text, json, bytes, why, size);
}

int pfw_manifest_text_take(struct pfw_manifest_text *text, char *json, size_t bytes, char *why,
			   size_t size)
{
	struct pfw_entry entry;
	uint64_t format = 0;
	int error = 0;

	text->json = json;
	text->whole = (struct pfw_slice){ .at = json, .bytes = bytes };
	pfw_entry_parse_any(&entry, text->json, bytes);
	if (entry.kind != PFW_ENTRY_EVENT) {
		snprintf(why, size, "not a manifest: %s at byte %zu",
			 entry.why ? entry.why : "no JSON object", entry.why_at);
		error = -EBADMSG;
	}
	while (!error && text->whole.bytes && *text->whole.at != '{') {
		text->whole.at++;
		text->whole.bytes--;
	}
	if (!error && (!pfw_manifest_text_u64(&text->whole, "format", &format) ||
		       format != PFW_MANIFEST_FORMAT)) {
		snprintf(why, size, "format %" PRIu64 " and this pfw knows %d: take a newer pfw",
			 format, PFW_MANIFEST_FORMAT);
		error = -EBADMSG;
	}
	if (error)
		pfw_manifest_text_free(text);
	return error;
}

void pfw_manifest_text_free(struct pfw_manifest_text *text)
{
	free(text->json);
	text->json = NULL;
}

bool pfw_manifest_text_list(const struct pfw_manifest_text *text, const char *key,
			    struct pfw_walk *list)
{
	struct pfw_value value;

	if (!pfw_slice_find(&text->whole, key, &value) || value.type != PFW_VALUE_ARRAY)
		return false;
	pfw_walk_init(list, &value.text);
	return true;
}

bool pfw_manifest_text_u64(const struct pfw_slice *object, const char *key, uint64_t *number)
{
	struct pfw_value value;

	return pfw_slice_find(object, key, &value) && pfw_value_u64(&value, number);
}

bool pfw_manifest_text_string(const struct pfw_slice *object, const char *key, char *out,
			      size_t size)
{
	struct pfw_value value;

	return pfw_slice_find(object, key, &value) && value.type == PFW_VALUE_STRING &&
	       value.text.bytes && pfw_slice_decode(&value.text, out, size) + 1 < size;
}

bool pfw_manifest_text_leads_out(const char *name)
{
	return strchr(name, '/') || strcmp(name, "..") == 0 || strcmp(name, ".") == 0;
}
