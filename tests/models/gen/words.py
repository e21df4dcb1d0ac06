"""Models over strings: counts of words (by onnxruntime: onnx.reference takes the weights in another order), cases of
letters."""
import numpy as np

from .kit import STRING, model

POOL = ["cat", "dog", "Öl", "", "cat", "dog", "dog", "Öl", "cat", "cat", "cat", "dog", "Öl"]
TEXTS = [["cat", "dog", "Öl", "cat", "cat", "dog"], ["cow", "", "cat", "dog", "Öl", "cats"],
         ["Dog", "dog", "dog", "Öl", "", "cat"]]


@model("TfIdfVectorizer over words, one row and an open number of rows: TF, IDF, TFIDF, grams of one to three words, "
       "with words between them", opset=18)
def words_counted(net):
    rows, line = net.input("rows", STRING, "n", 6), net.input("line", STRING, 6)
    for name, mode, skip, most, x in (("tf", "TF", 0, 2, rows), ("idf", "IDF", 0, 1, rows),
                                      ("tfidf", "TFIDF", 0, 3, rows), ("skips", "TF", 2, 3, rows),
                                      ("lines", "TFIDF", 1, 2, line)):
        weights = None if mode == "TF" else [float(w) for w in net.uniform(0.5, 2, 8)]
        net.op("TfIdfVectorizer", x, out=name, mode=mode, min_gram_length=1, max_gram_length=most, max_skip_count=skip,
               ngram_counts=[0, 4, 10], ngram_indexes=[3, 0, 1, 6, 2, 5, 4, 7], pool_strings=POOL, weights=weights)
        net.open_outputs.append(name)
    words = np.array(TEXTS)
    return [[words[:n], words[n - 1]] for n in (3, 1)]


@model("StringNormalizer beyond ASCII: both cases of Latin, Greek, Cyrillic, Armenian letters, letters that become two "
       "or take more bytes, stop words with and without regard to case", opset=18)
def words_cased(net):
    x = net.input("x", STRING, 8)
    stops = ["über", "ΑΒΓ", "жук"]
    for name, action, sensitive, words in (("lower", "LOWER", 1, None), ("upper", "UPPER", 1, None),
                                           ("left", "NONE", 1, stops), ("any", "NONE", 0, stops),
                                           ("upper_any", "UPPER", 0, stops), ("lower_left", "LOWER", 1, stops)):
        net.op("StringNormalizer", x, out=name, case_change_action=action, is_case_sensitive=sensitive,
               stopwords=words)
        net.output(name, STRING, *([8] if not words else [f"{name}_n"]))
    return [[np.array(t)] for t in (["Über", "über", "αβγ", "ΑΒΓ", "Жук", "straße", "Ā ꙁ ß", "ascii"],
                                    ["ÀÉÎ", "ŹŻ", "ՀԱՅ", "ﬁn", "Ⱥ", "ĳ", "Ǆ", "ÿ"])]
