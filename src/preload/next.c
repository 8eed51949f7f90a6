/* preload/next.c - looks up names in the GNU hash tables of the objects after this one; see next.h.
 *
 * dlsym() takes some 870 instructions for each of hundreds of names: in a program that is not
 * traced this would be most of the cost of preloading.  It also takes the dynamic linker's lock, so
 * it could not run in the first call of a name.
 */
#include "preload/next.h"

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define OBJECTS_MAX 64u
#define BLOOM_BITS (8 * sizeof(ElfW(Addr)))

struct object {
	uintptr_t base;
	const ElfW(Sym) * symbol;
	const char *string;
	const ElfW(Half) * version; /* by symbol; NULL = no versions */
	const ElfW(Addr) * bloom;
	const uint32_t *bucket, *chain; /* chain[0] belongs to symbol `first` */
	uint32_t bloom_mask, bloom_shift, buckets, first;
};

static struct {
	struct object object[OBJECTS_MAX];
	unsigned count;
	bool passed;	    /* our own object was seen */
	bool complete;	    /* libc was seen */
	bool unusual;	    /* an unusual object: leave all to dlsym() */
	_Atomic bool ready; /* the objects may be read */
} loaded;

/* ---- loaded objects ---- */

/* An address in a dynamic section, which glibc has relocated and musl has not. */
static const void *pointer(const struct object *object, const ElfW(Dyn) * entry)
{
	uintptr_t address = entry->d_un.d_ptr;

	return (const void *)(address < object->base ? object->base + address : address);
}

static void read_hash(struct object *object, const uint32_t *hash)
{
	object->buckets = hash[0];
	object->first = hash[1];
	object->bloom_mask = hash[2] - 1;
	object->bloom_shift = hash[3];
	object->bloom = (const ElfW(Addr) *)(const void *)(hash + 4);
	object->bucket = (const uint32_t *)(const void *)(object->bloom + hash[2]);
	object->chain = object->bucket + hash[0];
}

/* False: it has no symbols, or no GNU hash table. */
static bool read_object(struct object *object, const ElfW(Dyn) * dynamic)
{
	const ElfW(Dyn) *soname = NULL;
	bool old = false;

	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		switch (dynamic->d_tag) {
		case DT_SYMTAB:
			object->symbol = pointer(object, dynamic);
			break;
		case DT_STRTAB:
			object->string = pointer(object, dynamic);
			break;
		case DT_VERSYM:
			object->version = pointer(object, dynamic);
			break;
		case DT_GNU_HASH:
			read_hash(object, pointer(object, dynamic));
			break;
		case DT_HASH:
			old = true;
			break;
		case DT_SONAME:
			soname = dynamic;
			break;
		case DT_FILTER:
		case DT_AUXILIARY:
			loaded.unusual = true;
			break;
		default:
			break;
		}
	}
	loaded.unusual |= old && !object->buckets;
	loaded.complete = soname && object->string &&
			  !strcmp(object->string + soname->d_un.d_val, "libc.so.6");
	return object->buckets && object->symbol && object->string;
}

static bool holds(const struct dl_phdr_info *info, uintptr_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    address - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr <
			    info->dlpi_phdr[i].p_memsz)
			return true;
	return false;
}

/* Objects are visited in the order of symbol lookup; those of dlopen() come last. */
static int take_object(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct object object = { .base = info->dlpi_addr };

	(void)size;
	(void)unused;
	if (!loaded.passed) {
		loaded.passed = holds(info, (uintptr_t)&loaded);
		return 0;
	}
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC &&
		    read_object(&object,
				(const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr)))
			loaded.unusual |= loaded.count == OBJECTS_MAX;
	if (object.buckets && !loaded.unusual)
		loaded.object[loaded.count++] = object;
	return loaded.complete || loaded.unusual;
}

void pfw_preload_next_init(void)
{
	if (loaded.passed)
		return;
	dl_iterate_phdr(take_object, NULL);
	atomic_store_explicit(&loaded.ready, loaded.complete && !loaded.unusual,
			      memory_order_release);
}

/* ---- names ---- */

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* Whether a symbol defines the name, by the rules of the dynamic linker. */
static bool defines(const struct object *object, uint32_t index, const char *name)
{
	const ElfW(Sym) *symbol = &object->symbol[index];
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	if (!symbol->st_value && symbol->st_shndx != SHN_ABS && type != STT_TLS)
		return false;
	return (type <= STT_FUNC || type == STT_COMMON || type == STT_TLS ||
		type == STT_GNU_IFUNC) &&
	       !strcmp(object->string + symbol->st_name, name);
}

/*
 * The symbol of that name; NULL = none.  Of several versions it is the default one; hidden versions
 * are kept for old programs.
 */
static const ElfW(Sym) * find(const struct object *object, const char *name, uint32_t hash)
{
	ElfW(Addr) word = object->bloom[hash / BLOOM_BITS & object->bloom_mask];
	const ElfW(Sym) *versioned = NULL;
	uint32_t index, versions = 0;

	if (!(word >> hash % BLOOM_BITS & word >> (hash >> object->bloom_shift) % BLOOM_BITS & 1))
		return NULL;
	index = object->bucket[hash % object->buckets];
	for (bool more = index != 0; more; index++) {
		uint32_t link = object->chain[index - object->first];
		ElfW(Half) version;

		more = !(link & 1);
		if ((link ^ hash) >> 1 || !defines(object, index, name))
			continue;
		version = object->version ? object->version[index] : 0;
		if ((version & 0x7fff) < 2)
			return &object->symbol[index];
		if (!(version & 0x8000) && versions++ == 0)
			versioned = &object->symbol[index];
	}
	return versions == 1 ? versioned : NULL;
}

void *pfw_preload_next(const char *name)
{
	uint32_t hash = hash_of(name);

	if (!atomic_load_explicit(&loaded.ready, memory_order_acquire))
		return NULL;
	for (unsigned i = 0; i < loaded.count; i++) {
		const ElfW(Sym) *symbol = find(&loaded.object[i], name, hash);
		unsigned binding = symbol ? ELF64_ST_BIND(symbol->st_info) : STB_LOCAL;

		if (binding == STB_LOCAL)
			continue;
		/* Not a plain function, for example an IFUNC. */
		if (binding > STB_WEAK || ELF64_ST_TYPE(symbol->st_info) > STT_FUNC ||
		    symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= SHN_LORESERVE)
			return NULL;
		return (void *)(loaded.object[i].base + symbol->st_value);
	}
	return NULL;
}
