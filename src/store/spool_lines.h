/* spool_lines.h - the lines that a dead process's spool still holds, as its writer would have
 * written them: events, losses and the `end` with reason "recovered".
 */
#ifndef PFW_SPOOL_LINES_H
#define PFW_SPOOL_LINES_H

#include <stddef.h>
#include <stdint.h>

struct pfw_json;
struct pfw_spool_image;

/*
 * Where the text goes: whole lines, at most PFW_GZIP_TEXT_MAX bytes at once; json->lines, least_ns
 * and greatest_ns are those of this text.  Return 0, or a -errno that ends the reading.
 */
typedef int pfw_spool_put(void *user, const char *text, size_t bytes, const struct pfw_json *json);

struct pfw_spool_lines {
	/* In. */
	const char *spool_path; /* named in the first line */
	int first_line;		/* the file is new: begin with `process` */
	pfw_spool_put *put;
	void *user;
	/* Out. */
	uint64_t recovered; /* events */
	uint64_t torn;
	uint64_t lost; /* what `end` says, torn included */
};

/* Whether the spool holds anything that a trace has to tell: records or losses. */
int pfw_spool_has_lines(const struct pfw_spool_image *image);

/* Put all the lines.  Return 0, -ENOMEM, or what put() returned.  Changes image->header's losses
 * (of the copy): torn ones are added. */
int pfw_spool_put_lines(struct pfw_spool_image *image, struct pfw_spool_lines *lines);

#endif
