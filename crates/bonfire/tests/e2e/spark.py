"""The filters of `bonfire prepare` through Spark's `pipe`, on a cluster of two executors with processes of their own.

    python3 spark.py BONFIRE REVIEWS OUT

Everything between the two lines is in docs/preparing.md, but for where files are.
"""

import sys

from pyspark import SparkConf, SparkContext
from pyspark.rdd import portable_hash

bonfire, reviews, out = sys.argv[1:]
conf = SparkConf().setMaster("local-cluster[2,1,1024]").setAppName("bonfire").set("spark.ui.enabled", "false")
sc = SparkContext(conf=conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1"))
# ----
by_text = lambda line: portable_hash(line.split("\t")[0])
texts = (sc.textFile(reviews, 6).pipe(bonfire + " prepare map")
         .map(lambda line: (line, None)).repartitionAndSortWithinPartitions(4, by_text)
         .keys().pipe(bonfire + " prepare reduce").cache())
words = (texts.pipe(bonfire + " prepare count").map(lambda line: (line, None))
         .sortByKey(numPartitions=1).keys().pipe(bonfire + " prepare count --sum").collect())
with open(out + "/vocabulary.txt", "w") as file:
    file.writelines(word + "\n" for word in words)
sc.addFile(out + "/vocabulary.txt")
encode = bonfire + " prepare encode --vocabulary-file " + out + "/vocabulary.txt"
rows = texts.sortBy(lambda line: line).pipe(encode)
for part in "train", "validation", "test":
    lines = rows.filter(lambda line, part=part: line.startswith(part + "\t"))
    lines.map(lambda line: line.split("\t", 1)[1]).saveAsTextFile(out + "/" + part)
# ----
used = texts.map(lambda _: __import__("os").getppid()).distinct().count()
print(f"{sc.version}: {texts.count()} texts by {used} executors")
sc.stop()
