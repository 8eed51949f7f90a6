/* input.c - the text of a file, inflated where it is gzip; see input.h. */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gzip.h"
#include "inflate.h"
#include "points.h"

#define ROOM (256u * 1024u)
/* Read at first: of thousands of traces only the first line is looked at. */
#define FIRST (16u * 1024u)
/* Both ids, the method and a header of ours up to its subfield ids: what is looked for behind
 * damage.  Fewer bytes would be found by chance inside compressed data. */
#define SIGNATURE_BYTES 16u

enum state {
	STATE_FIRST, /* nothing read: is it gzip? */
	STATE_PLAIN,
	STATE_MEMBER,  /* inside a member */
	STATE_BETWEEN, /* behind one */
	STATE_SEARCH,  /* behind damage */
	STATE_DONE,
	STATE_TAIL, /* behind the file */
};

struct pfw_input {
	int fd;
	bool seekable;
	bool gzip;
	bool at_end;	/* read() has returned 0 */
	bool went_back; /* from the end, see leave_cut() */
	enum state state;
	uint64_t position;     /* byte of the file behind `room` */
	uint64_t limit;	       /* taken for the file's end */
	uint64_t member_at;    /* where the member being read begins */
	uint64_t member_bytes; /* its length where its header says so, else 0 */
	uint64_t rewound_from; /* where the last damaged member was found to be damaged */
	uint64_t problem_at;
	struct pfw_input_tail tail;	 /* read NULL: the file ends where it ends */
	bool mid_line;			 /* the text so far does not end in '\n' */
	size_t begin, end;		 /* what of room is still unread */
	struct pfw_inflate *inflate;	 /* NULL before the first member */
	struct pfw_points_maker *points; /* NULL: none are wanted */
	char problem[160];
	unsigned char room[ROOM];
};

int pfw_input_open_fd(const char *path)
{
	struct stat st;
	int fd, error = 0;

	if (strcmp(path, "-") == 0) {
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return fd < 0 ? -errno : fd;
	}
	/* O_NONBLOCK: a FIFO that nobody writes must not hang us in open(). */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		error = -errno;
	else if (S_ISDIR(st.st_mode))
		error = -EISDIR;
	else if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		error = -ENODEV;
	if (error) {
		close(fd);
		return error;
	}
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return fd;
}

/* fd becomes the input's, also where that fails. */
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
	int error;

	if (tail->fd >= 0 && (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)) {
		error = -errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	error = open_fd(out, fd);
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

/* The byte of the file that is read next. */
static uint64_t next_byte(const struct pfw_input *input)
{
	return input->position - unread(input);
}

uint64_t pfw_input_at(const struct pfw_input *input)
{
	return next_byte(input);
}

/* read(), up to the limit.  Bytes, 0 at the end, or -errno. */
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

/* Have at least `want` bytes unread, or all there are.  Return 0 or -errno. */
static int fill(struct pfw_input *input, size_t want)
{
	size_t room = input->state == STATE_FIRST ? FIRST : ROOM;

	if (unread(input) >= want || input->at_end)
		return 0;
	if (input->begin) {
		memmove(input->room, input->room + input->begin, unread(input));
		input->end -= input->begin;
		input->begin = 0;
	}
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
	const unsigned char *at = input->room + input->begin;

	return unread(input) >= 2 && at[0] == 0x1f && at[1] == 0x8b;
}

/* The first byte of a member that was cut there. */
static bool at_half_magic(const struct pfw_input *input)
{
	return unread(input) == 1 && input->room[input->begin] == 0x1f;
}

/* Begin the member at the next byte.  Return 0 or -ENOMEM. */
static int begin_member(struct pfw_input *input)
{
	struct pfw_gzip_summary summary;

	if (!input->inflate && !(input->inflate = pfw_inflate_new()))
		return -ENOMEM;
	pfw_inflate_member(input->inflate);
	input->member_at = next_byte(input);
	input->member_bytes = 0;
	if (pfw_gzip_read_summary(input->room + input->begin, unread(input), &summary) == 0)
		input->member_bytes = summary.member_bytes;
	input->state = STATE_MEMBER;
	return 0;
}

/*
 * Behind damage in a member: where it says its length, its successor begins there.  Never back to
 * before the damage found last, so that lying lengths cannot make reading take forever.
 */
static void leave_damaged(struct pfw_input *input)
{
	uint64_t next = input->member_at + input->member_bytes, here = next_byte(input);

	input->state = STATE_SEARCH;
	if (!input->seekable || !input->member_bytes || next < input->rewound_from ||
	    next > (uint64_t)INT64_MAX || lseek(input->fd, (off_t)next, SEEK_SET) < 0)
		return;
	input->rewound_from = here;
	input->position = next;
	input->begin = input->end = 0;
	input->at_end = false;
}

/*
 * At the end in the middle of a member.  Where not even its header has ended, the header may lie of
 * its length, and have taken whole members for a part of it: look for them, once.
 */
static void leave_cut(struct pfw_input *input)
{
	uint64_t next = input->member_at + 1;

	input->state = STATE_DONE;
	if (!input->seekable || input->went_back || pfw_inflate_begun(input->inflate) ||
	    pfw_input_seek(input, next))
		return;
	input->went_back = true;
	input->begin = input->end = 0;
	input->at_end = false;
	input->state = STATE_SEARCH;
}

/* Behind a member; of one that was resumed, the CRC and the length are still unread. */
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

/* `made` bytes of text have come. */
static int note_points(struct pfw_input *input, const void *text, size_t made,
		       const struct pfw_inflate_io *io)
{
	pfw_points_note(input->points, text, made);
	if (!io->stopped)
		return 0;
	return pfw_points_make(input->points, next_byte(input) * 8 - io->bits_back);
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
		return error ? error : (ssize_t)made;
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

/* Behind a member: the next one, the end, or rubbish.  Zeroes are padding (tapes, some copiers). */
static ssize_t next_member(struct pfw_input *input)
{
	uint64_t end = input->member_bytes ? input->member_at + input->member_bytes : 0;
	int error = fill(input, PFW_GZIP_HEADER_BYTES);

	if (error)
		return error;
	input->member_bytes = 0;
	if (end && end != next_byte(input))
		return problem(input, input->member_at,
			       "this gzip member is not as long as its header says");
	while (unread(input) && input->room[input->begin] == 0) {
		input->begin++;
		if (!unread(input)) {
			error = fill(input, PFW_GZIP_HEADER_BYTES);
			if (error)
				return error;
		}
	}
	error = fill(input, PFW_GZIP_HEADER_BYTES);
	if (error)
		return error;
	if (at_magic(input) || at_half_magic(input))
		return begin_member(input);
	if (!unread(input)) {
		input->state = STATE_DONE;
		return 0;
	}
	input->state = STATE_SEARCH;
	return problem(input, next_byte(input),
		       "this is no gzip member: rubbish behind the last one");
}

/* Whether a member of ours begins at `at`, of which SIGNATURE_BYTES can be read. */
static bool is_signature(const unsigned char *at)
{
	return at[0] == 0x1f && at[1] == 0x8b && at[2] == 8 && (at[3] & 4) && at[12] == 'P' &&
	       at[13] == 'F' && at[14] == PFW_GZIP_EXTRA_BYTES && at[15] == 0;
}

/* Look for the next member of ours. */
static ssize_t search(struct pfw_input *input)
{
	for (;;) {
		int error = fill(input, ROOM / 2);

		if (error)
			return error;
		for (; unread(input) >= SIGNATURE_BYTES; input->begin++) {
			if (is_signature(input->room + input->begin))
				return begin_member(input);
		}
		if (input->at_end) {
			input->begin = input->end;
			input->state = STATE_DONE;
			return 0;
		}
	}
}

/* ---- points ---- */

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
		return error ? error : -EBADMSG;
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

/* Behind the file; in a line that is not ended (writer.c may blank its end, to fill a page) or was
 * damaged the next one must not be lost. */
static ssize_t read_tail(struct pfw_input *input, void *buf, size_t size)
{
	input->state = STATE_TAIL;
	if (!input->mid_line || !size)
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
