/* input.h - the text of a file, inflated where it is gzip, and what is wrong with its members.
 *
 * Reads members one after the other in bounded memory, from a file or a pipe.  Damage does not end
 * the reading: the next whole member of ours (they say their length) is looked for.
 */
#ifndef PFW_INPUT_H
#define PFW_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pfw_input; /* opaque: see input.c */

/* What stands for the end of a file that is still being written (live.h). */
struct pfw_input_tail {
	int fd;		 /* of the file, borrowed; -1: there is none yet */
	uint64_t offset; /* bytes of the file that count */
	/* More text behind them: as pfw_input_read(), without damage. */
	ssize_t (*read)(void *user, void *buf, size_t size);
	void *user;
};

/*
 * Open a file, or standard input for "-".  Regular files and pipes only, and standard input of any
 * kind.  Return 0 with *out for pfw_input_close(); -ENOMEM, -EISDIR, -ENODEV for anything else that
 * is no file, or what open() said.  Thread: one at a time for one input, as all here.
 */
int pfw_input_open(struct pfw_input **out, const char *path);

/* The text of a file and what stands for its end; *tail is copied, what it names must last.  Return 0,
 * -ENOMEM, or why the descriptor is no good. */
int pfw_input_open_tail(struct pfw_input **out, const struct pfw_input_tail *tail);
void pfw_input_close(struct pfw_input *input);

/* The descriptor of such a file for somebody who reads it himself, or -errno. */
int pfw_input_open_fd(const char *path);

/* Begin at that byte of the file instead of its first; before the first read.  0 or -errno. */
int pfw_input_seek(struct pfw_input *input, uint64_t at);

/* Read the gzip members in these bytes of the file only; before the first read.  0 or -errno. */
int pfw_input_range(struct pfw_input *input, uint64_t begin, uint64_t end);

/*
 * Begin at a point that was made while the file was read before: the text goes on from
 * point->text_at.  Before the first read.  0, -EBADMSG where its window is damaged, or -errno.
 */
struct pfw_point;
int pfw_input_resume(struct pfw_input *input, const struct pfw_point *point);

/* Make points while the file is read, from its begin.  0 or -ENOMEM. */
int pfw_input_make_points(struct pfw_input *input);

/* Those made since the last call; whoever takes them frees them. */
struct pfw_points;
void pfw_input_take_points(struct pfw_input *input, struct pfw_points *points);

/* How far the file has been read. */
uint64_t pfw_input_at(const struct pfw_input *input);

/*
 * Read up to `size` bytes of text.  Return their number, 0 at the end, -EBADMSG where the file is
 * damaged (pfw_input_problem() says how; reading may go on), or another -errno (it may not).
 */
ssize_t pfw_input_read(struct pfw_input *input, void *buf, size_t size);

/* What the last -EBADMSG was about, a line without file name; and the byte of the file where the
 * damaged member, or the rubbish, begins. */
const char *pfw_input_problem(const struct pfw_input *input);
uint64_t pfw_input_problem_at(const struct pfw_input *input);

#endif
