/* tools/ui/embed.h - puts a file of this tree into the program, as a text with a NUL. */
#pragma once

/* `path` is from tools/, which is on the include path; the assembler reads it.  CMakeLists.txt
 * makes the object depend on the file. */
#define PFW_EMBED(name, path)                                                       \
	__asm__(".pushsection .rodata\n" #name ":\n.incbin \"" path "\"\n.byte 0\n" \
		".popsection\n");                                                   \
	extern const char name[]
