"""Recognises Vietnamese text in encodings from before Unicode, which reads as gibberish: "ViÖt Nam", "Vieät Nam"."""

import re

# Letters of TCVN3 (ABC) fonts as Western text: signs of Latin-1 inside words.
_TCVN3 = re.compile(r"[A-Za-z][µ¸¶·¹¨©ª«¬®»¾¼½§−]|[µ¸¶·¹¨©ª«¬®»¾¼½§−][A-Za-z]")
# VNI: the mark is a letter of its own behind the vowel; đ is ñ, ư is ö.
_VNI = re.compile(r"(?:[aeoyuAEOYUöôÖÔ][øûïåäëüØÛÏÅÄËÜ])|[ñÑöÖ](?:[aeiouöôA-Z]|\b)|[aeouy][ùõ]|[oaeOAE][âÂáàãêèéÁÀÃ]")
_UNICODE = re.compile(r"[\u1ea0-\u1ef9ăđơưĂĐƠƯ]")
_WORD = re.compile(r"\S*[^\W\d_]\S*")
# Below this many words nothing is said.
_MIN_WORDS = 20
_SHARE = 0.12
_MIN_VARIETY = 6


def legacy_encoding(text: str) -> str | None:
    """ "TCVN3" or "VNI" when much of a text is in that encoding, else None.

    Counts words that hold letter combinations which neither Vietnamese nor a Western language has, against words
    with letters that only Vietnamese in Unicode has.
    """
    words = _WORD.findall(text)
    if len(words) < _MIN_WORDS:
        return None
    proper = sum(bool(_UNICODE.search(word)) for word in words)
    for name, pattern in (("TCVN3", _TCVN3), ("VNI", _VNI)):
        found = [
            match.group().lower() for word in words if (match := pattern.search(word)) and not _UNICODE.search(word)
        ]
        # A Western language has a few such combinations (août, niño), a legacy encoding dozens.
        is_varied = len({combination[-2:] for combination in found}) >= _MIN_VARIETY
        if is_varied and len(found) > max(_SHARE * len(words), 0.25 * proper):
            return name
    return None
