/* blocks.c - where the blocks of a trace are; see blocks.h. */
#include "blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gzip.h"
#include "input.h"
#include "scan.h"

#define TRAILER_BYTES 8u /* CRC and length of the text */
/* An empty member's deflate stream takes two bytes. */
#define MEMBER_LEAST (PFW_GZIP_HEADER_BYTES + 2 + TRAILER_BYTES)
/* What one compressed byte can stand for: 258 bytes in two bits. */
#define DEFLATE_MOST 1032u

/* Make room for one more.  A file of nothing but headers must not cost more than its own size:
 * beyond the first ones, members are at least 4 KiB in the mean, or the file is read in order. */
static int make_room(struct pfw_blocks *blocks, size_t *room)
{
	struct pfw_block *bigger;

	if (blocks->count < *room)
		return 0;
	if (blocks->count > 65536 + blocks->file_bytes / 4096)
		return -E2BIG;
	*room = *room ? *room * 2 : 64;
	bigger = realloc(blocks->block, *room * sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	blocks->block = bigger;
	return 0;
}

/* ---- plain text ---- */

static int find_text(struct pfw_blocks *blocks)
{
	blocks->layout = PFW_LAYOUT_TEXT;
	blocks->count = (size_t)((blocks->file_bytes + PFW_BLOCK_TEXT - 1) / PFW_BLOCK_TEXT);
	if (!blocks->count)
		return 0;
	blocks->block = calloc(blocks->count, sizeof(*blocks->block));
	if (!blocks->block)
		return -ENOMEM;
	for (size_t i = 0; i < blocks->count; i++) {
		blocks->block[i].at = (uint64_t)i * PFW_BLOCK_TEXT;
		blocks->block[i].bytes = PFW_BLOCK_TEXT;
	}
	blocks->block[blocks->count - 1].bytes -=
		(uint64_t)blocks->count * PFW_BLOCK_TEXT - blocks->file_bytes;
	return 0;
}

/* ---- members ---- */

static void set_summary(struct pfw_block *block, const struct pfw_gzip_summary *summary)
{
	block->summed = true;
	block->lines = summary->lines;
	block->least_ns = summary->least_ns > INT64_MAX ? INT64_MAX : (int64_t)summary->least_ns;
	block->greatest_ns = summary->greatest_ns > INT64_MAX ? INT64_MAX
							      : (int64_t)summary->greatest_ns;
}

/* Whether that much text can be in that member, and may be read at once. */
static bool is_sane(uint64_t member_bytes, uint32_t text_bytes)
{
	return text_bytes <= PFW_GZIP_TEXT_MAX + PFW_SCAN_LINE_MAX &&
	       text_bytes <= member_bytes * DEFLATE_MOST;
}

static uint32_t get_u32(const unsigned char *in)
{
	return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

/*
 * Follow the chain.  Each look reads the end of one member and the header of the next.  Return 0,
 * -ENOENT where it does not reach the end of the file or a member says what cannot be, or -errno.
 */
static int follow_members(struct pfw_blocks *blocks, int fd)
{
	unsigned char look[TRAILER_BYTES + PFW_GZIP_HEADER_BYTES];
	const unsigned char *header = look + TRAILER_BYTES;
	uint64_t at = 0;
	size_t room = 0;

	while (at < blocks->file_bytes) {
		size_t before = at ? TRAILER_BYTES : 0;
		struct pfw_gzip_summary summary = { 0 };
		struct pfw_block block = { .at = at, .bytes = blocks->file_bytes - at };
		ssize_t got = pread(fd, look + TRAILER_BYTES - before,
				    PFW_GZIP_HEADER_BYTES + before, (off_t)(at - before));
		size_t bytes = got < (ssize_t)before ? 0 : (size_t)got - before;
		int error = pfw_gzip_read_summary(header, bytes, &summary);

		if (got < 0)
			return -errno;
		if (before && !is_sane(blocks->block[blocks->count - 1].bytes, get_u32(look + 4)))
			return -ENOENT;
		/* A header that is cut is the last member's, which is cut with it. */
		if (error && (error != -EAGAIN || bytes == PFW_GZIP_HEADER_BYTES || !at))
			return -ENOENT;
		if (!error && summary.member_bytes < MEMBER_LEAST)
			return -ENOENT;
		if (!error && summary.member_bytes <= block.bytes) {
			block.bytes = summary.member_bytes;
			set_summary(&block, &summary);
		}
		error = make_room(blocks, &room);
		if (error)
			return error == -E2BIG ? -ENOENT : error;
		blocks->block[blocks->count++] = block;
		at += block.bytes;
	}
	return 0;
}

static bool last_is_sane(const struct pfw_blocks *blocks, int fd)
{
	const struct pfw_block *last = &blocks->block[blocks->count - 1];
	unsigned char bytes[4];

	if (!last->summed)
		return true; /* cut: whoever reads it looks at each byte */
	return pread(fd, bytes, 4, (off_t)(last->at + last->bytes - 4)) == 4 &&
	       is_sane(last->bytes, get_u32(bytes));
}

static int find_members(struct pfw_blocks *blocks, int fd)
{
	int error = follow_members(blocks, fd);

	if (!error && last_is_sane(blocks, fd)) {
		blocks->layout = PFW_LAYOUT_MEMBERS;
		return 0;
	}
	free(blocks->block);
	blocks->block = NULL;
	blocks->count = 0;
	return error == -ENOENT ? 0 : error;
}

/* ---- all of them ---- */

static int find_in(struct pfw_blocks *blocks, int fd)
{
	unsigned char magic[2] = { 0 };

	if (pread(fd, magic, 2, 0) < 0)
		return -errno;
	return magic[0] == 0x1f && magic[1] == 0x8b ? find_members(blocks, fd) : find_text(blocks);
}

int pfw_blocks_find(struct pfw_blocks *blocks, const char *path)
{
	struct stat st;
	int fd, error;

	*blocks = (struct pfw_blocks){ .layout = PFW_LAYOUT_STREAM };
	/* Never open a pipe twice: its writer would get SIGPIPE in between. */
	if (strcmp(path, "-") == 0 || (stat(path, &st) == 0 && S_ISFIFO(st.st_mode)))
		return 0;
	fd = pfw_input_open_fd(path);
	if (fd < 0)
		return fd;
	error = fstat(fd, &st) < 0 ? -errno : 0;
	if (!error && S_ISREG(st.st_mode)) {
		blocks->file_bytes = (uint64_t)st.st_size;
		error = find_in(blocks, fd);
	}
	close(fd);
	if (error)
		pfw_blocks_free(blocks);
	return error;
}

void pfw_blocks_free(struct pfw_blocks *blocks)
{
	free(blocks->block);
	pfw_points_free(&blocks->points);
	*blocks = (struct pfw_blocks){ .layout = PFW_LAYOUT_STREAM };
}
