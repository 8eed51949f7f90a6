/* store/read/input.h - the text of a file, inflated if it is gzip, and the damage in it.
 *
 * Reads members in order in bounded memory, from a file or a pipe.  After damage, reading continues
 * at the next whole member of ours.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pfw_input; /* opaque: see input.c */

/* More text after the end of a file that is still being written (store/recover/unwritten.h). */
struct pfw_input_tail {
	int fd;		 /* of the file, borrowed; -1: there is none yet */
	uint64_t offset; /* bytes of the file before the tail */
	/* As pfw_input_read(), without damage. */
	ssize_t (*read)(void *user, void *buf, size_t size);
	void *user;
};

/* Open a file, or standard input for "-".  Files must be regular or pipes; standard input may be of
 * any type.  Return 0 with *out for pfw_input_close(); -ENOMEM, -EISDIR, -ENODEV for other types,
 * or the error of open().  Thread: one at a time for one input, as all here. */
int pfw_input_open(struct pfw_input **out, const char *path);

/* Open a file and its tail; *tail is copied, and what it points to must last.  Return 0, -ENOMEM,
 * or the error of the descriptor. */
int pfw_input_open_tail(struct pfw_input **out, const struct pfw_input_tail *tail);
void pfw_input_close(struct pfw_input *input); /* or NULL */

/* A descriptor of such a file, for callers that read it themselves, or -errno. */
int pfw_input_open_fd(const char *path);

/* Begin at that byte of the file; only before the first read.  0 or -errno. */
int pfw_input_seek(struct pfw_input *input, uint64_t at);

/* Read only the gzip members in these bytes of the file; only before a first read.  0 or -errno. */
int pfw_input_range(struct pfw_input *input, uint64_t begin, uint64_t end);

/* Begin at a seek point, that is at point->text_at of the text; only before the first read.  0,
 * -EBADMSG if its window is damaged, or -errno. */
struct pfw_point;
int pfw_input_resume(struct pfw_input *input, const struct pfw_point *point);

/* Make seek points while the file is read from its begin.  0 or -ENOMEM. */
int pfw_input_make_points(struct pfw_input *input);

/* Take the points made since the last call; the caller frees them. */
struct pfw_points;
void pfw_input_take_points(struct pfw_input *input, struct pfw_points *points);

/* How far the file has been read. */
uint64_t pfw_input_at(const struct pfw_input *input);

/* Read up to `size` bytes of text.  Return their number, 0 at the end, -EBADMSG for damage (see
 * pfw_input_problem(); reading may go on), or another -errno (it may not). */
ssize_t pfw_input_read(struct pfw_input *input, void *buf, size_t size);

/* The last -EBADMSG: its text without a file name, and where in the file the damaged member or the
 * garbage begins. */
const char *pfw_input_problem(const struct pfw_input *input);
uint64_t pfw_input_problem_at(const struct pfw_input *input);
