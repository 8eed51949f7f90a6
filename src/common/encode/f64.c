/* common/encode/f64.c - a double to a decimal that reads back the same, by integer arithmetic.
 *
 * No floating-point operations: the writer thread inherits the rounding mode and flush-to-zero of
 * the program's thread.
 */
#include "common/encode/text.h"

#define MANTISSA_BITS 52
#define EXPONENT_BIAS 1075 /* value = mantissa * 2^(exponent field - 1075) */
#define DIGITS 17	   /* enough for any double */
#define BILLION 1000000000u

/* Digits of a big number without leading zeros, first digit first. */
struct digits {
	char text[DIGITS + 2 + 9 + 9]; /* a group of nine may begin at the last place */
	int count;
	int point; /* digits before the point: the value is 0.text * 10^point */
};

static void add_group(struct digits *digits, uint32_t group)
{
	uint32_t unit = BILLION / 10;
	int i;

	for (i = 0; i < 9; i++, unit /= 10) {
		uint32_t digit = group / unit % 10;

		if (digits->count || digit)
			digits->text[digits->count++] = (char)('0' + digit);
		else
			digits->point--;
	}
}

/* The digits of mantissa * 2^shift, at most 1024 bits, in groups of nine. */
static void integer_digits(struct digits *digits, uint64_t mantissa, unsigned int shift)
{
	uint32_t limb[34] = { 0 }, group[35];
	unsigned __int128 low = (unsigned __int128)mantissa << (shift % 32);
	int limbs = (int)(shift / 32) + 3, groups = 0, i;

	for (i = 0; i < 3; i++)
		limb[shift / 32 + (unsigned int)i] = (uint32_t)(low >> 32 * i);
	while (limbs) {
		uint64_t rest = 0;

		for (i = limbs - 1; i >= 0; i--) {
			rest = rest << 32 | limb[i];
			limb[i] = (uint32_t)(rest / BILLION);
			rest %= BILLION;
		}
		group[groups++] = (uint32_t)rest;
		while (limbs && !limb[limbs - 1])
			limbs--;
	}
	digits->point = 9 * groups;
	for (i = groups - 1; i >= 0 && digits->count <= DIGITS; i--)
		add_group(digits, group[i]);
}

/* The digits of mantissa / 2^shift < 1: multiplied by 10^9, the carry is the next group of nine. */
static void fraction_digits(struct digits *digits, uint64_t mantissa, unsigned int shift)
{
	uint32_t limb[36] = { 0 }; /* the fraction's bits, lowest first, aligned to the top */
	unsigned int limbs = (shift + 31) / 32, i;
	unsigned __int128 low = (unsigned __int128)mantissa << (limbs * 32 - shift);

	for (i = 0; i < 3 && i < limbs; i++)
		limb[i] = (uint32_t)(low >> 32 * i);
	while (digits->count <= DIGITS) {
		uint64_t carry = 0;

		for (i = 0; i < limbs; i++) {
			carry += (uint64_t)limb[i] * BILLION;
			limb[i] = (uint32_t)carry;
			carry >>= 32;
		}
		add_group(digits, (uint32_t)carry);
	}
}

/* Round to DIGITS digits and drop trailing zeros. */
static void round_digits(struct digits *digits)
{
	int i = DIGITS;

	if (digits->count > DIGITS && digits->text[DIGITS] >= '5') {
		while (i > 0 && digits->text[i - 1] == '9')
			i--;
		if (i) {
			digits->text[i - 1]++;
		} else {
			digits->text[i++] = '1';
			digits->point++;
		}
	} else if (digits->count < DIGITS) {
		i = digits->count;
	}
	while (i > 1 && digits->text[i - 1] == '0')
		i--;
	digits->count = i;
}

/* Values outside the range of put_short(): d.ddde+XX, at most 17 digits. */
static char *put_exponential(char *out, uint64_t mantissa, int exponent)
{
	struct digits digits = { .count = 0 };
	int power;

	if (exponent >= 0)
		integer_digits(&digits, mantissa, (unsigned int)exponent);
	else
		fraction_digits(&digits, mantissa, (unsigned int)-exponent);
	round_digits(&digits);
	power = digits.point - 1;
	*out++ = digits.text[0];
	if (digits.count > 1) {
		*out++ = '.';
		memcpy(out, digits.text + 1, DIGITS - 1);
		out += digits.count - 1;
	}
	out = power < 0 ? pfw_append(out, "e-") : pfw_append(out, "e+");
	return pfw_append_u64(out, (uint64_t)(power < 0 ? -power : power));
}

/* whole / 10^places, always with a point, so that readers infer a float. */
static char *put_decimal(char *out, uint64_t whole, unsigned int places)
{
	char digit[24], *end = pfw_append_u64(digit, whole);
	unsigned int count = (unsigned int)(end - digit), before;

	if (!places) {
		memcpy(out, digit, sizeof(digit));
		return pfw_append(out + count, ".0");
	}
	before = count > places ? count - places : 0;
	if (before)
		memcpy(out, digit, before);
	else
		*out++ = '0';
	out += before;
	*out++ = '.';
	for (; places > count; places--)
		*out++ = '0';
	memcpy(out, digit + before, count - before);
	return out + count - before;
}

/* The fewest decimals that distinguish this double from its neighbours.  With value = mantissa /
 * 2^shift, whole / 10^places is within half a step of it if |whole * 2^shift - mantissa *
 * 10^places| < 10^places / 2; a quarter at a power of two, where the step downwards is half as
 * wide.  From 2^-16 up 21 decimals are enough, and all products fit 128 bits. */
static char *put_short(char *out, uint64_t mantissa, unsigned int shift)
{
	unsigned __int128 power = 1, exact, back, off;
	unsigned int places, part = mantissa == 1ull << MANTISSA_BITS ? 4 : 2;
	uint64_t whole = 0;

	for (places = 0; places < 22; places++, power *= 10) {
		exact = mantissa * power;
		whole = (uint64_t)((exact + ((unsigned __int128)1 << (shift - 1))) >> shift);
		back = (unsigned __int128)whole << shift;
		off = back > exact ? back - exact : exact - back;
		if (off * part < power)
			break;
	}
	return put_decimal(out, whole, places);
}

char *pfw_append_f64(char *out, uint64_t bits)
{
	uint64_t mantissa = bits & ((1ull << MANTISSA_BITS) - 1);
	int exponent = (int)(bits >> MANTISSA_BITS & 0x7ff);

	if (exponent == 0x7ff)
		return pfw_append(out, "null");
	if (bits >> 63)
		*out++ = '-';
	if (exponent)
		mantissa |= 1ull << MANTISSA_BITS;
	else
		exponent = 1;
	exponent -= EXPONENT_BIAS;
	if (!mantissa)
		return pfw_append(out, "0.0");
	/* Integers below 2^63; then fractions from 2^-16 (> 1e-5) up. */
	if (exponent >= 0 && exponent <= 10)
		return put_decimal(out, mantissa << exponent, 0);
	if (exponent < 0 && exponent >= -16 - MANTISSA_BITS)
		return put_short(out, mantissa, (unsigned int)-exponent);
	return put_exponential(out, mantissa, exponent);
}
