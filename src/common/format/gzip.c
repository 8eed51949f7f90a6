/* common/format/gzip.c - compresses text into one gzip member, by ISA-L or zlib; see gzip.h.
 *
 * Neither library is linked: the traced program may use its own zlib, of any version, and must not
 * get ours.  We write the header of the member, which holds the summary; the library makes the
 * deflate stream.  Work memory is mapped: malloc belongs to the traced program.
 */
#include "common/format/gzip.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <zlib.h>
#if PFW_HAVE_ISAL
#include <isa-l/igzip_lib.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "common/base/le.h"
#include "common/base/os.h"

#define LEVEL 1 /* zlib's higher levels double the time for a tenth of the size */
#define ZLIB_MEMORY_LEVEL 8
/* zlib's deflate takes 264 KiB at this level, zlib-ng's about twice as much. */
#define ZLIB_ARENA_BYTES (640u * 1024u)
#define DEFLATE_INPUT_MAX (1u << 30)

struct zlib {
	z_stream stream;
	int (*init)(z_stream *stream, int level, int method, int window_bits, int memory_level,
		    int strategy, const char *version, int stream_size);
	int (*deflate)(z_stream *stream, int flush);
	int (*reset)(z_stream *stream);
	uLong (*crc)(uLong crc, const Bytef *text, uInt bytes);
	size_t used; /* of the arena; freed only as a whole */
	_Alignas(64) unsigned char arena[ZLIB_ARENA_BYTES];
};

#if PFW_HAVE_ISAL
struct isal {
	struct isal_zstream stream;
	void (*init)(struct isal_zstream *stream);
	void (*reset)(struct isal_zstream *stream);
	int (*deflate)(struct isal_zstream *stream);
	_Alignas(64) unsigned char level[ISAL_DEF_LVL1_DEFAULT];
};
#endif

struct pfw_gzip {
	void *handle;
	/* Write the deflate stream and the trailer; return their length or -errno. */
	int64_t (*compress)(struct pfw_gzip *gzip, unsigned char *out, size_t room,
			    const void *text, size_t text_bytes);
	char library[32];
	union {
		struct zlib zlib;
#if PFW_HAVE_ISAL
		struct isal isal;
#endif
	} with;
};
_Static_assert(sizeof(struct pfw_gzip) < 1 << 20, "work memory is below 1 MiB");

/* Look up each name (NULL ends them) and store it through the pointer of the same index. */
static bool find_functions(void *handle, const char *const *names, void **const *functions)
{
	for (; *names; names++, functions++) {
		**functions = dlsym(handle, *names);
		if (!**functions)
			return false;
	}
	return true;
}

/* ---- ISA-L ---- */

#if PFW_HAVE_ISAL

#if defined(__x86_64__)
static __attribute__((target("avx"))) void zero_upper(void)
{
	_mm256_zeroupper();
}

/* Not __builtin_cpu_supports(): its constructor would run CPUID in every traced process, and each
 * CPUID of a virtual machine traps to the host. */
static bool have_avx(void)
{
	enum { UNKNOWN, NO, YES };
	static _Atomic int known = UNKNOWN;
	unsigned a, b, c = 0, d, enabled = 0;

	if (atomic_load_explicit(&known, memory_order_relaxed) == UNKNOWN) {
		if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE) && (c & bit_AVX))
			__asm__("xgetbv" : "=a"(enabled), "=d"(d) : "c"(0));
		atomic_store_explicit(&known, (enabled & 6) == 6 ? YES : NO, memory_order_relaxed);
	}
	return atomic_load_explicit(&known, memory_order_relaxed) == YES;
}
#endif

/* ISA-L 2.30 returns with the upper halves of the vector registers in use.  Every later SSE
 * instruction of the thread would run at 0.6 of its speed. */
static void clean_vectors(void)
{
#if defined(__x86_64__)
	if (have_avx())
		zero_upper();
#endif
}

static int64_t isal_compress(struct pfw_gzip *gzip, unsigned char *out, size_t room,
			     const void *text, size_t text_bytes)
{
	struct isal *isal = &gzip->with.isal;
	struct isal_zstream *stream = &isal->stream;
	int result;

	isal->reset(stream);
	stream->level = LEVEL;
	stream->level_buf = isal->level;
	stream->level_buf_size = sizeof(isal->level);
	stream->gzip_flag = IGZIP_GZIP_NO_HDR; /* it appends CRC and length */
	stream->flush = NO_FLUSH;
	stream->end_of_stream = 1;
	stream->next_in = (uint8_t *)text;
	stream->avail_in = (uint32_t)text_bytes;
	stream->next_out = out;
	stream->avail_out = room > UINT32_MAX ? UINT32_MAX : (uint32_t)room;
	result = isal->deflate(stream);
	clean_vectors();
	if (result != COMP_OK)
		return -EIO;
	return stream->internal_state.state == ZSTATE_END ? (int64_t)stream->total_out : -ENOSPC;
}

/* The file name of the library ends in its version: libisal.so.2.0.30 is 2.30. */
static void isal_name(struct pfw_gzip *gzip)
{
	static const char stem[] = "libisal.so.2.0.";
	struct link_map *map = NULL;
	char target[256];
	const char *minor = NULL;
	ssize_t bytes = -1;

	strcpy(gzip->library, "ISA-L");
	if (dlinfo(gzip->handle, RTLD_DI_LINKMAP, &map) == 0 && map)
		bytes = pfw_os_readlink(map->l_name, target, sizeof(target) - 1);
	if (bytes > 0) {
		target[bytes] = '\0';
		minor = strstr(target, stem);
	}
	if (minor && strlen(minor) < sizeof(stem) + 4)
		stpcpy(stpcpy(gzip->library, "ISA-L 2."), minor + sizeof(stem) - 1);
}

static int isal_open(struct pfw_gzip *gzip)
{
	static const char *const names[] = { "isal_deflate_init", "isal_deflate_reset",
					     "isal_deflate", NULL };
	struct isal *isal = &gzip->with.isal;
	void **const functions[] = { (void **)&isal->init, (void **)&isal->reset,
				     (void **)&isal->deflate };

	gzip->handle = dlopen("libisal.so.2", RTLD_NOW | RTLD_LOCAL);
	if (!gzip->handle)
		return -ENOENT;
	if (!find_functions(gzip->handle, names, functions)) {
		dlclose(gzip->handle);
		return -ENOENT;
	}
	isal->init(&isal->stream);
	clean_vectors();
	gzip->compress = isal_compress;
	isal_name(gzip);
	return 0;
}

#endif

/* ---- zlib ---- */

static void *zlib_alloc(void *opaque, uInt items, uInt bytes)
{
	struct zlib *zlib = opaque;
	size_t wanted = ((size_t)items * bytes + 63) & ~(size_t)63;
	void *start = zlib->arena + zlib->used;

	if (wanted > sizeof(zlib->arena) - zlib->used)
		return NULL;
	zlib->used += wanted;
	return start;
}

static void zlib_free(void *opaque, void *address)
{
	(void)opaque;
	(void)address;
}

static int64_t zlib_compress(struct pfw_gzip *gzip, unsigned char *out, size_t room,
			     const void *text, size_t text_bytes)
{
	struct zlib *zlib = &gzip->with.zlib;
	z_stream *stream = &zlib->stream;
	int64_t bytes;
	int result;

	if (zlib->reset(stream) != Z_OK)
		return -EIO;
	stream->next_in = (Bytef *)text;
	stream->avail_in = (uInt)text_bytes;
	stream->next_out = out;
	stream->avail_out = room > UINT32_MAX ? UINT32_MAX : (uInt)room;
	result = zlib->deflate(stream, Z_FINISH);
	if (result != Z_STREAM_END)
		return result == Z_OK || result == Z_BUF_ERROR ? -ENOSPC : -EIO;
	bytes = stream->next_out - out;
	if (room - (size_t)bytes < PFW_GZIP_TRAILER_BYTES)
		return -ENOSPC;
	pfw_le_put(out + bytes, zlib->crc(0, text, (uInt)text_bytes), 4);
	pfw_le_put(out + bytes + 4, text_bytes, 4);
	return bytes + PFW_GZIP_TRAILER_BYTES;
}

static int zlib_open(struct pfw_gzip *gzip)
{
	static const char *const names[] = { "deflateInit2_", "deflate",     "deflateReset",
					     "crc32",	      "zlibVersion", NULL };
	struct zlib *zlib = &gzip->with.zlib;
	const char *(*version)(void) = NULL;
	void **const functions[] = { (void **)&zlib->init, (void **)&zlib->deflate,
				     (void **)&zlib->reset, (void **)&zlib->crc,
				     (void **)&version };
	int result = Z_VERSION_ERROR;

	gzip->handle = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!gzip->handle)
		return -ENOENT;
	zlib->stream.zalloc = zlib_alloc;
	zlib->stream.zfree = zlib_free;
	zlib->stream.opaque = zlib;
	if (find_functions(gzip->handle, names, functions))
		result = zlib->init(&zlib->stream, LEVEL, Z_DEFLATED, -MAX_WBITS, ZLIB_MEMORY_LEVEL,
				    Z_DEFAULT_STRATEGY, ZLIB_VERSION, (int)sizeof(z_stream));
	if (result != Z_OK) {
		dlclose(gzip->handle);
		return result == Z_MEM_ERROR ? -ENOMEM : -ENOENT;
	}
	gzip->compress = zlib_compress;
	strcpy(gzip->library, "zlib ");
	strncat(gzip->library, version(), sizeof(gzip->library) - 6);
	return 0;
}

/* ---- members ---- */

int pfw_gzip_open(struct pfw_gzip **out)
{
	struct pfw_gzip *gzip = pfw_os_map(sizeof(*gzip));
	int error = -ENOENT;

	if (!gzip)
		return -ENOMEM;
#if PFW_HAVE_ISAL
	error = isal_open(gzip);
#endif
	if (error) {
		memset(&gzip->with.zlib, 0, offsetof(struct zlib, arena));
		error = zlib_open(gzip);
	}
	if (error) {
		pfw_os_munmap(gzip, sizeof(*gzip));
		return error;
	}
	*out = gzip;
	return 0;
}

void pfw_gzip_close(struct pfw_gzip *gzip)
{
	if (!gzip)
		return;
	dlclose(gzip->handle);
	pfw_os_munmap(gzip, sizeof(*gzip));
}

const char *pfw_gzip_library(const struct pfw_gzip *gzip)
{
	return gzip->library;
}

size_t pfw_gzip_bound(size_t text_bytes)
{
	/* Text that does not compress grows by its block headers: far less than this. */
	return PFW_GZIP_HEADER_BYTES + PFW_GZIP_TRAILER_BYTES + text_bytes + text_bytes / 16 + 1024;
}

int64_t pfw_gzip_member(struct pfw_gzip *gzip, void *out, size_t room, const void *text,
			size_t text_bytes, struct pfw_gzip_summary *summary)
{
	unsigned char *member = out;
	int64_t bytes;

	if (room < PFW_GZIP_HEADER_BYTES || text_bytes > DEFLATE_INPUT_MAX)
		return -ENOSPC;
	bytes = gzip->compress(gzip, member + PFW_GZIP_HEADER_BYTES, room - PFW_GZIP_HEADER_BYTES,
			       text, text_bytes);
	if (bytes < 0)
		return bytes;
	bytes += PFW_GZIP_HEADER_BYTES;
	summary->member_bytes = (uint32_t)bytes;
	pfw_gzip_put_header(member, summary, PFW_GZIP_FASTEST, 0);
	return bytes;
}

#define FLAG_COMMENT 0x10

/* RFC 1952: the comment follows the extra field, up to a zero.  An existing one gets longer. */
static void put_comment(unsigned char *member, size_t bytes)
{
	memset(member + PFW_GZIP_HEADER_BYTES, ' ', bytes);
	if (!(member[3] & FLAG_COMMENT))
		member[PFW_GZIP_HEADER_BYTES + bytes - 1] = '\0';
	member[3] |= FLAG_COMMENT;
}

void pfw_gzip_pad(void *out, size_t bytes)
{
	static const unsigned char nothing[2 + PFW_GZIP_TRAILER_BYTES] = {
		3
	}; /* an empty last block */
	const struct pfw_gzip_summary summary = { .member_bytes = (uint32_t)bytes,
						  .least_ns = UINT64_MAX };

	pfw_gzip_put_header(out, &summary, PFW_GZIP_FASTEST, 0);
	put_comment(out, bytes - PFW_GZIP_HEADER_BYTES - sizeof(nothing));
	memcpy((unsigned char *)out + bytes - sizeof(nothing), nothing, sizeof(nothing));
}

size_t pfw_gzip_lengthen(void *member, size_t bytes, size_t by)
{
	unsigned char *stream = (unsigned char *)member + PFW_GZIP_HEADER_BYTES;

	memmove(stream + by, stream, bytes - PFW_GZIP_HEADER_BYTES);
	pfw_gzip_set_bytes(member, bytes + by);
	put_comment(member, by);
	return bytes + by;
}
