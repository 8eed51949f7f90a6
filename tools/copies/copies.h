/* tools/copies/copies.h - copies of traces in which lines have other texts.
 *
 * Room tools/copies: what `pfw anonymise` and `pfw symbolize` do alike.  It may use tools/share,
 * tools/ui and the store.  Start here; copies.c makes the files, block.c the text or the gzip
 * members of a block.
 *
 * A copy has the form of its trace: text, members as the recorder makes them, or the marked members
 * of a compacted trace with their headers.  Copies appear together when all are complete.
 */
#pragma once

#include "share/survey.h"
#include "store/gzip/member.h"
#include "store/read/stream.h"

enum copies_form {
	COPIES_PLAIN,
	COPIES_GZIP,   /* members as the recorder makes them */
	COPIES_SORTED, /* marked members, as `pfw compact` makes them */
};

struct copies {
	struct survey *survey;
	const struct pfw_select *select; /* chooses everything */
	const char *path;		 /* of a new directory; `single`: of a new file */
	bool single;
	void *user;
	/* The name of a copy without directory and suffix, from malloc; NULL: no memory. */
	char *(*stem)(void *user, const struct pfw_trace_file *file);
	/* Append the new text of a line, without '\n'.  0 or -errno.  Thread: that of `worker`. */
	int (*line)(void *user, unsigned worker, struct pfw_buffer *out,
		    const struct pfw_pass_lines *line);
	/* Private to copies.c and block.c. */
	char *temporary; /* the directory or file until it is complete */
	const struct pfw_traces *traces;
	struct copies_copy *copy; /* of each trace */
	struct copies_worker {
		struct pfw_gzip *gzip;
		struct pfw_member *member;
		struct pfw_buffer text;
	} * worker;
	size_t open; /* the copy that `fd` is */
	int fd;
};

/* Whether the path is free: CLI_OK, or CLI_USAGE after a message.  Thread: main, as
 * copies_write(). */
int copies_check(const struct copies *copies);

/* Copy all traces, and the lines that are still in rings.  The exit status: the copies are there if
 * it is at most CLI_PROBLEMS, else there is nothing. */
int copies_write(struct copies *copies, struct survey_input *input);

/* Every block, for survey_fold's want().  Thread: any. */
bool copies_want(void *user, size_t file, const struct pfw_block *block);

/* block.c: append the new text of a block of a file.  `mark` is that of a SORTED block.  0, -ENOMEM,
 * -ENOENT without a library to compress with, or another -errno.  Thread: that of `worker`. */
int copies_block(const struct copies *copies, unsigned worker, enum copies_form form,
		 const struct pfw_sorted_mark *mark, struct pfw_pass_block *block,
		 struct pfw_buffer *out);
