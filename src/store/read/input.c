/* store/read/input.c - the text of a file, inflated if it is gzip; see input.h.
 *
 * The states and their transitions:
 *
 *   FIRST ---- no gzip ---> PLAIN
 *     |
 *    gzip       its end               end of file
 *     v      ------------>           ------------->
 *   MEMBER                  BETWEEN                  DONE
 *    |   ^   <------------     |                      ^
 *    |   |    magic bytes   garbage                   |
 *    |   |                     v                      |
 *    |   +---- signature --- SEARCH --- end of file --+
 *    |                         ^
 *    +-- damage, or a cut -----+
 *
 * Two transitions to SEARCH rewind a seekable file:
 * - leave_damaged(): if the header has the member's length, SEARCH begins at the member's end.
 * - leave_cut(): if the file ends inside the header, SEARCH begins at the byte after the member's
 *   first, once in a file.  Any other cut leads to DONE.
 *
 * pfw_input_range() begins in BETWEEN, pfw_input_resume() in MEMBER.  An input with a tail goes on
 * to TAIL when PLAIN or DONE has no more text.
 */
#include "store/read/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/gzip/inflate.h"
#include "store/gzip/member.h"
#include "store/gzip/seek_points.h"
#include "store/sys/open.h"

#define ROOM (256u * 1024u)
/* The first reads are small, because many callers need only the first line of thousands of traces,
 * and a library inflates all that it is given, up to 64 KiB of text. */
#define FIRST 1024u
#define GROWTH 16u

enum state {
	STATE_FIRST, /* nothing read: is it gzip? */
	STATE_PLAIN,
	STATE_MEMBER,  /* inside a member */
	STATE_BETWEEN, /* after a member */
	STATE_SEARCH,  /* after damage: looks for the next member of ours */
	STATE_DONE,
	STATE_TAIL, /* after the file */
};

struct pfw_input {
	int fd;
	bool seekable;
	bool gzip;
	bool at_end;	/* read() has returned 0 */
	bool went_back; /* leave_cut() has rewound */
	enum state state;
	size_t most;	       /* bytes of `room` that the next read fills */
	uint64_t position;     /* byte of the file after `room` */
	uint64_t limit;	       /* reading ends here as if the file did */
	uint64_t member_at;    /* begin of the current member */
	uint64_t member_bytes; /* its length from its header, or 0 */
	bool header_damaged;   /* and the member is not read to its end yet */
	uint64_t rewound_from; /* where the last damage was found */
	uint64_t problem_at;
	struct pfw_input_tail tail;	 /* read NULL: no tail */
	bool mid_line;			 /* the text so far has no '\n' at its end */
	size_t begin, end;		 /* room[begin..end) is unread */
	struct pfw_inflate *inflate;	 /* NULL before the first member */
	struct pfw_points_maker *points; /* NULL: no seek points are made */
	char problem[160];
	unsigned char room[ROOM];
};

int pfw_input_open_fd(const char *path)
{
	int fd;

	if (strcmp(path, "-") == 0) {
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return fd < 0 ? -errno : fd;
	}
	fd = pfw_open_file(path, PFW_OPEN_LINK | PFW_OPEN_PIPE, NULL);
	if (fd < 0)
		return fd;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return fd;
}

/* Takes over fd, also if it fails. */
static int open_fd(struct pfw_input **out, int fd)
{
	struct pfw_input *input = malloc(sizeof(*input));
	off_t at;

	if (!input) {
		if (fd >= 0)
			close(fd);
		return -ENOMEM;
	}
	memset(input, 0, offsetof(struct pfw_input, room));
	input->fd = fd;
	at = lseek(fd, 0, SEEK_CUR);
	input->seekable = at >= 0;
	input->position = at > 0 ? (uint64_t)at : 0;
	input->limit = UINT64_MAX;
	input->most = FIRST;
	*out = input;
	return 0;
}

int pfw_input_open(struct pfw_input **out, const char *path)
{
	int fd = pfw_input_open_fd(path);

	return fd < 0 ? fd : open_fd(out, fd);
}

int pfw_input_open_tail(struct pfw_input **out, const struct pfw_input_tail *tail)
{
	int fd = tail->fd < 0 ? -1 : fcntl(tail->fd, F_DUPFD_CLOEXEC, 3);
	int error = tail->fd >= 0 && (fd < 0 || lseek(fd, 0, SEEK_SET) < 0) ? -errno : 0;

	if (error && fd >= 0)
		close(fd);
	error = error ?: open_fd(out, fd);
	if (error)
		return error;
	(*out)->tail = *tail;
	(*out)->limit = tail->offset;
	if (fd < 0)
		(*out)->state = STATE_TAIL;
	return 0;
}

int pfw_input_seek(struct pfw_input *input, uint64_t at)
{
	if (lseek(input->fd, (off_t)at, SEEK_SET) < 0)
		return -errno;
	input->position = at;
	input->begin = input->end = 0;
	input->at_end = false;
	return 0;
}

int pfw_input_range(struct pfw_input *input, uint64_t begin, uint64_t end)
{
	input->limit = end;
	input->gzip = true;
	input->state = STATE_BETWEEN;
	return pfw_input_seek(input, begin);
}

void pfw_input_close(struct pfw_input *input)
{
	if (!input)
		return;
	pfw_inflate_free(input->inflate);
	if (input->points)
		pfw_points_free(&input->points->made);
	free(input->points);
	if (input->fd >= 0)
		close(input->fd);
	free(input);
}

const char *pfw_input_problem(const struct pfw_input *input)
{
	return input->problem;
}

uint64_t pfw_input_problem_at(const struct pfw_input *input)
{
	return input->problem_at;
}

static size_t unread(const struct pfw_input *input)
{
	return input->end - input->begin;
}

uint64_t pfw_input_at(const struct pfw_input *input)
{
	return input->position - unread(input);
}

/* read() up to the limit.  Return the bytes, 0 at the end, or -errno. */
static ssize_t read_file(struct pfw_input *input, void *buf, size_t size)
{
	ssize_t got;

	if (input->position >= input->limit)
		return 0;
	if (size > input->limit - input->position)
		size = (size_t)(input->limit - input->position);
	do
		got = read(input->fd, buf, size);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	input->position += (uint64_t)got;
	return got;
}

/* Have at least `want` bytes unread, or all that are left.  Return 0 or -errno. */
static int fill(struct pfw_input *input, size_t want)
{
	size_t room = want > input->most ? ROOM : input->most;

	if (unread(input) >= want || input->at_end)
		return 0;
	if (input->begin) {
		memmove(input->room, input->room + input->begin, unread(input));
		input->end -= input->begin;
		input->begin = 0;
	}
	if (input->most < ROOM)
		input->most *= GROWTH;
	while (input->end < want) {
		ssize_t got = read_file(input, input->room + input->end, room - input->end);

		if (got < 0)
			return (int)got;
		if (got == 0) {
			input->at_end = true;
			break;
		}
		input->end += (size_t)got;
	}
	return 0;
}

static int problem(struct pfw_input *input, uint64_t at, const char *text)
{
	input->problem_at = at;
	snprintf(input->problem, sizeof(input->problem), "%s", text);
	return -EBADMSG;
}

/* ---- members ---- */

static bool at_magic(const struct pfw_input *input)
{
	return pfw_is_gzip(input->room + input->begin, unread(input));
}

/* Whether only the first byte of a cut member is left. */
static bool at_half_magic(const struct pfw_input *input)
{
	return unread(input) == 1 && input->room[input->begin] == 0x1f;
}

/* Begin the member at the next byte.  Return 0 or -errno. */
static int begin_member(struct pfw_input *input)
{
	struct pfw_gzip_summary summary;
	const unsigned char *header;
	int error = fill(input, PFW_MEMBER_HEADER_BYTES);

	if (error)
		return error;
	header = input->room + input->begin;
	if (!input->inflate && !(input->inflate = pfw_inflate_new()))
		return -ENOMEM;
	pfw_inflate_member(input->inflate);
	input->member_at = pfw_input_at(input);
	input->member_bytes = 0;
	input->state = STATE_MEMBER;
	if (pfw_gzip_read_summary(header, unread(input), &summary))
		return 0;
	input->member_bytes = summary.member_bytes;
	input->header_damaged = pfw_header_is_damaged(header, unread(input));
	return 0;
}

/* After damage in a member of known length, look for the next member at its end.  Never go back to
 * before the damage found last, so that false lengths cannot make reading endless. */
static void leave_damaged(struct pfw_input *input)
{
	uint64_t next = input->member_at + input->member_bytes, here = pfw_input_at(input);

	input->state = STATE_SEARCH;
	if (input->seekable && input->member_bytes && next >= input->rewound_from &&
	    next <= (uint64_t)INT64_MAX && !pfw_input_seek(input, next))
		input->rewound_from = here;
}

/* The file ends inside a member.  If it ends inside its header, the header may have a false length
 * that hides whole members: look for them, once. */
static void leave_cut(struct pfw_input *input)
{
	input->state = STATE_DONE;
	if (!input->seekable || input->went_back || pfw_inflate_begun(input->inflate) ||
	    pfw_input_seek(input, input->member_at + 1))
		return;
	input->went_back = true;
	input->state = STATE_SEARCH;
}

/* After a member.  The trailer of a resumed member is still unread. */
static int leave_member(struct pfw_input *input)
{
	unsigned trailer = pfw_inflate_trailer(input->inflate);
	int error = fill(input, trailer);

	if (error)
		return error;
	input->begin += unread(input) < trailer ? unread(input) : trailer;
	input->state = STATE_BETWEEN;
	return 0;
}

/* After inflating `made` bytes of text: make a seek point if one is due. */
static int note_points(struct pfw_input *input, const void *text, size_t made,
		       const struct pfw_inflate_io *io)
{
	pfw_points_note(input->points, text, made);
	if (!io->stopped)
		return 0;
	return pfw_points_make(input->points, pfw_input_at(input) * 8 - io->bits_back);
}

static ssize_t inflate_some(struct pfw_input *input, void *buf, size_t size)
{
	int error = fill(input, 1);
	struct pfw_inflate_io io = { .in = input->room + input->begin,
				     .in_bytes = unread(input),
				     .out = buf,
				     .out_bytes = size,
				     .stop = input->points && pfw_points_due(input->points) };
	enum pfw_inflate_result result;
	char text[sizeof(input->problem)];
	size_t made;

	if (error)
		return error;
	result = pfw_inflate_step(input->inflate, &io);
	made = size - io.out_bytes;
	input->begin = input->end - io.in_bytes;
	if (input->points)
		error = note_points(input, buf, made, &io);
	if (!error && result == PFW_INFLATE_END)
		error = leave_member(input);
	if (result == PFW_INFLATE_FULL)
		error = -ENOMEM;
	if (error || made)
		return error ?: (ssize_t)made;
	if (result == PFW_INFLATE_MORE && input->at_end && !unread(input)) {
		leave_cut(input);
		return problem(input, input->member_at, "this gzip member is cut");
	}
	if (result == PFW_INFLATE_BAD) {
		snprintf(text, sizeof(text), "this gzip member is damaged (%s)",
			 pfw_inflate_why(input->inflate));
		leave_damaged(input);
		return problem(input, input->member_at, text);
	}
	return 0;
}

/* After a member: the next one, the end, or garbage.  Zeroes are padding (tapes, some copiers). */
static ssize_t next_member(struct pfw_input *input)
{
	uint64_t end = input->member_bytes ? input->member_at + input->member_bytes : 0;
	int error = fill(input, PFW_GZIP_HEADER_BYTES);

	if (error)
		return error;
	input->member_bytes = 0;
	if (input->header_damaged) {
		input->header_damaged = false;
		return problem(
			input, input->member_at,
			"the header of this gzip member does not fit its own checksum: none of "
			"its figures is believed, and the lines are read");
	}
	if (end && end != pfw_input_at(input))
		return problem(input, input->member_at,
			       "this gzip member is not as long as its header says");
	while (unread(input) && input->room[input->begin] == 0) {
		input->begin++;
		error = fill(input, PFW_GZIP_HEADER_BYTES);
		if (error)
			return error;
	}
	if (at_magic(input) || at_half_magic(input))
		return begin_member(input);
	if (!unread(input)) {
		input->state = STATE_DONE;
		return 0;
	}
	input->state = STATE_SEARCH;
	return problem(input, pfw_input_at(input), "not a gzip member: rubbish after the last one");
}

/* Look for the next member of ours. */
static ssize_t search(struct pfw_input *input)
{
	for (;;) {
		int error = fill(input, ROOM / 2);

		if (error)
			return error;
		for (; unread(input) >= PFW_GZIP_SIGNATURE_BYTES; input->begin++) {
			if (pfw_gzip_is_signature(input->room + input->begin))
				return begin_member(input);
		}
		if (input->at_end) {
			input->begin = input->end;
			input->state = STATE_DONE;
			return 0;
		}
	}
}

/* ---- seek points ---- */

int pfw_input_make_points(struct pfw_input *input)
{
	input->points = calloc(1, sizeof(*input->points));
	return input->points ? 0 : -ENOMEM;
}

void pfw_input_take_points(struct pfw_input *input, struct pfw_points *points)
{
	*points = (struct pfw_points){ 0 };
	if (!input->points)
		return;
	*points = input->points->made;
	input->points->made = (struct pfw_points){ 0 };
}

int pfw_input_resume(struct pfw_input *input, const struct pfw_point *point)
{
	unsigned char window[PFW_POINT_WINDOW], byte = 0;
	int bytes = pfw_point_window(point, window);
	int error = pfw_input_seek(input, point->file_at);

	if (bytes < 0 || point->bits > 7 || error)
		return error ?: -EBADMSG;
	if (point->bits && pread(input->fd, &byte, 1, (off_t)point->file_at - 1) != 1)
		return -EBADMSG;
	if (!input->inflate && !(input->inflate = pfw_inflate_new()))
		return -ENOMEM;
	input->gzip = true;
	input->state = STATE_MEMBER;
	input->member_at = point->file_at;
	return pfw_inflate_resume(input->inflate, point->bits, byte, window, (size_t)bytes);
}

/* ---- reading ---- */

static ssize_t first_bytes(struct pfw_input *input)
{
	int error = fill(input, PFW_GZIP_HEADER_BYTES);

	if (error)
		return error;
	input->gzip = at_magic(input);
	if (input->gzip)
		return begin_member(input);
	input->state = STATE_PLAIN;
	return 0;
}

static ssize_t read_plain(struct pfw_input *input, void *buf, size_t size)
{
	size_t count = unread(input);

	if (!count)
		return read_file(input, buf, size);
	count = count < size ? count : size;
	memcpy(buf, input->room + input->begin, count);
	input->begin += count;
	return (ssize_t)count;
}

/* After the file.  If its last line has no '\n' (it is damaged, or recorder/writer/writer.c has
 * blanked its end to fill a page), add one, so that the first line of the tail is not lost. */
static ssize_t read_tail(struct pfw_input *input, void *buf, size_t size)
{
	bool begun = input->state == STATE_TAIL;

	input->state = STATE_TAIL;
	if (begun || !input->mid_line || !size)
		return input->tail.read(input->tail.user, buf, size);
	*(char *)buf = '\n';
	return 1;
}

static ssize_t read_some(struct pfw_input *input, void *buf, size_t size)
{
	while (input->state != STATE_DONE) {
		ssize_t got = 0;

		switch (input->state) {
		case STATE_FIRST:
			got = first_bytes(input);
			break;
		case STATE_PLAIN:
			return read_plain(input, buf, size);
		case STATE_MEMBER:
			got = inflate_some(input, buf, size);
			break;
		case STATE_BETWEEN:
			got = next_member(input);
			break;
		case STATE_TAIL:
			return 0;
		default:
			got = search(input);
			break;
		}
		if (got != 0)
			return got;
	}
	return 0;
}

ssize_t pfw_input_read(struct pfw_input *input, void *buf, size_t size)
{
	ssize_t got = read_some(input, buf, size);

	if (got == 0 && input->tail.read)
		got = read_tail(input, buf, size);
	if (got > 0)
		input->mid_line = ((char *)buf)[got - 1] != '\n';
	return got;
}
