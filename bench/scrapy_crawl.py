"""The same crawl by Scrapy, in an environment of its own: `python scrapy_crawl.py URL` prints pages and CPU seconds.

Runs without Rowen, and imports nothing of it. It follows links and takes title and text; it stores nothing.
"""

import json
import re
import sys
import time

from scrapy import Spider, signals
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor

SETTINGS = {
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": True,
    "COOKIES_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_ENABLED": False,
}


class Docs(Spider):
    name = "docs"
    pages = 0
    cpu_s = 0.0

    def __init__(self, root: str) -> None:
        super().__init__()
        self.start_urls = [root]
        self.links = LinkExtractor(allow=re.escape(root.rpartition("/")[0]))

    def parse(self, response):
        if not response.headers.get("Content-Type", b"").startswith(b"text/html"):
            return
        Docs.pages += 1
        yield {"title": response.css("title::text").get(), "text": " ".join(response.css("body ::text").getall())}
        for link in self.links.extract_links(response):
            yield response.follow(link, self.parse)


def main() -> None:
    crawl = CrawlerProcess(SETTINGS)
    crawler = crawl.create_crawler(Docs)
    started = [0.0]
    crawler.signals.connect(lambda: started.append(time.process_time()), signals.spider_opened, weak=False)
    crawl.crawl(crawler, root=sys.argv[1])
    crawl.start()
    sys.stdout.write(json.dumps({"pages": Docs.pages, "cpu_s": time.process_time() - started[-1]}))


if __name__ == "__main__":
    main()
