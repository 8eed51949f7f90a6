/* store/partial/read.c - reads a partial, which may be anybody's; see partial.h. */
#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/le.h"
#include "common/format/gzip_header.h"
#include "store/partial/internal.h"
#include "store/partial/partial.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"

bool pfw_partial_is_name(const char *path)
{
	size_t bytes = strlen(path), suffix = sizeof(PFW_PARTIAL_SUFFIX) - 1;

	return bytes > suffix && strcmp(path + bytes - suffix, PFW_PARTIAL_SUFFIX) == 0;
}

int pfw_partial_open(struct pfw_partial *partial, const char *path, const char **why)
{
	unsigned char header[PFW_PARTIAL_HEADER];
	int error;

	*partial = (struct pfw_partial){ .at = PFW_PARTIAL_HEADER };
	partial->fd = pfw_open_file(path, PFW_OPEN_LINK, &partial->st);
	if (partial->fd < 0) {
		*why = strerror(-partial->fd);
		return partial->fd;
	}
	error = pfw_full_read_all(partial->fd, header, sizeof(header), 0);
	partial->units = error ? 0 : pfw_le_get(header + PFW_PARTIAL_MAGIC_BYTES, 8);
	partial->bytes = error ? 0 : pfw_le_get(header + PFW_PARTIAL_MAGIC_BYTES + 8, 8);
	*why = "not a partial of this pfw's format";
	if (error || memcmp(header, PFW_PARTIAL_MAGIC, PFW_PARTIAL_MAGIC_BYTES) != 0) {
		error = -EBADMSG;
	} else if (partial->bytes != (uint64_t)partial->st.st_size) {
		*why = "a cut partial: it has not the length that it should have";
		error = -EBADMSG;
	}
	if (error)
		pfw_partial_close(partial);
	return error;
}

void pfw_partial_close(struct pfw_partial *partial)
{
	close(partial->fd);
}

/* Whether `packed` bytes of deflate can give `bytes` bytes, of which `most` are allowed. */
static bool may_be(uint32_t packed, uint32_t bytes, uint32_t most)
{
	return bytes <= most && bytes / PFW_DEFLATE_MOST <= packed;
}

int pfw_partial_next(struct pfw_partial *partial, struct pfw_partial_unit *unit)
{
	unsigned char head[PFW_PARTIAL_UNIT];
	uint64_t left = partial->bytes - partial->at;

	if (partial->unit == partial->units)
		return left ? -EBADMSG : 0;
	if (left < sizeof(head) || pfw_full_read_all(partial->fd, head, sizeof(head), partial->at))
		return -EBADMSG;
	*unit = (struct pfw_partial_unit){ .at = partial->at + sizeof(head),
					   .facts_packed = (uint32_t)pfw_le_get(head, 4),
					   .facts_bytes = (uint32_t)pfw_le_get(head + 4, 4),
					   .index_packed = (uint32_t)pfw_le_get(head + 8, 4),
					   .index_bytes = (uint32_t)pfw_le_get(head + 12, 4),
					   .facts_crc = (uint32_t)pfw_le_get(head + 16, 4),
					   .index_crc = (uint32_t)pfw_le_get(head + 20, 4) };
	left -= sizeof(head);
	if ((uint64_t)unit->facts_packed + unit->index_packed > left ||
	    !may_be(unit->facts_packed, unit->facts_bytes, PFW_PARTIAL_FACTS_MAX) ||
	    !may_be(unit->index_packed, unit->index_bytes, PFW_PARTIAL_INDEX_MAX))
		return -EBADMSG;
	partial->at = unit->at + unit->facts_packed + unit->index_packed;
	partial->unit++;
	return 1;
}

/* Deflated bytes of a file. */
struct packed {
	uint64_t at;
	uint32_t packed, bytes, crc;
};

/* Read and inflate them. */
static int inflate(int fd, const struct packed *from, size_t padding, unsigned char **out)
{
	struct libdeflate_decompressor *inflate = libdeflate_alloc_decompressor();
	unsigned char *in = malloc(from->packed + 1u);
	unsigned char *made = calloc(1, from->bytes + padding + 1);
	int error = inflate && in && made ? 0 : -ENOMEM;

	if (!error)
		error = pfw_full_read_all(fd, in, from->packed, from->at);
	if (!error && libdeflate_crc32(0, in, from->packed) != from->crc)
		error = -EBADMSG;
	/* The stream must give exactly from->bytes bytes. */
	if (!error &&
	    libdeflate_deflate_decompress(inflate, in, from->packed, made, from->bytes, NULL))
		error = -EBADMSG;
	if (inflate)
		libdeflate_free_decompressor(inflate);
	free(in);
	if (error)
		free(made);
	else
		*out = made;
	return error;
}

int pfw_partial_facts(const struct pfw_partial *partial, const struct pfw_partial_unit *unit,
		      size_t padding, char **out)
{
	unsigned char *made;
	const struct packed from = { .at = unit->at,
				     .packed = unit->facts_packed,
				     .bytes = unit->facts_bytes,
				     .crc = unit->facts_crc };
	int error = inflate(partial->fd, &from, padding, &made);

	if (!error)
		*out = (char *)made;
	return error;
}

int pfw_partial_index(const char *path, const struct pfw_partial_unit *unit, unsigned char **out)
{
	const struct packed from = { .at = unit->at + unit->facts_packed,
				     .packed = unit->index_packed,
				     .bytes = unit->index_bytes,
				     .crc = unit->index_crc };
	int error, fd = pfw_open_file(path, PFW_OPEN_LINK, NULL);

	if (fd < 0)
		return fd;
	error = inflate(fd, &from, 0, out);
	close(fd);
	return error;
}
