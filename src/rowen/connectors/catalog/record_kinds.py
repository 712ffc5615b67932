"""What a record describes, by the word that its portal has for it.

Each vocabulary has words of its own: scope codes of ISO 19115, classes of DCAT, types of DCMI, DataCite, COAR and
eu-repo, asset types of Socrata, item types of ArcGIS. They do not contradict one another, so that one table does.
"""

import re
from collections.abc import Iterable

__all__ = ["kind_named"]

_LETTERS = re.compile(r"[^a-z0-9]+")
_WORDS = {
    "dataset": """dataset datasets nongeographicdataset tile cddb1
        file filter href federatedhref
        featureservice featurelayer featurecollection table csv csvcollection shapefile filegeodatabase geodatabase
        geojson geopackage kml microsoftexcel imagecollection rasterlayer layerpackage""",
    "series": "series datasetseries collection productionseries sensorseries platformseries",
    "service": "service services dataservice webservice api wms wfs wmts wcs ogcfeatureserver",
    "map": "map maps webmap webscene mappackage mobilemappackage mapdocument cartographic c12cd",
    "application": """application app showcase software tool workflow interactiveresource computationalnotebook c5ce6
        chart visualization datalens calendar form measure dashboard
        storymap webmappingapplication webexperience hubsiteapplication hubpage desktopapplication notebook
        codesample insightsworkbook""",
    "document": """document text article book bookpart bookchapter report technicalreport researchpaper thesis
        bachelorthesis masterthesis doctoralthesis dissertation conferenceobject conferencepaper conferenceproceeding
        preprint workingpaper lecture presentation review peerreview patent journal journalarticle datapaper periodical
        manuscript standard outputmanagementplan languagematerial technicaldocumentation story
        pdf microsoftword microsoftpowerpoint documentlink
        c18cf c6501 c46ec cdb06 cbdcc c7a1f c2f33 c3248 c93fc c5794 c8042 c816b""",
    "other": """image stillimage movingimage video audiovisual sound event physicalobject model feature featuretype
        attribute attributetype propertytype fieldsession collectionhardware collectionsession dimensiongroup""",
}
_KINDS = {word: kind for kind, words in _WORDS.items() for word in words.split()}
# ArcGIS names a service by what it gives, followed by one of these.
_SERVICES = ("service", "server")


def kind_named(words: Iterable[str]) -> str | None:
    """The kind that the first word with a known meaning stands for; a word may be the end of an address."""
    for said in words:
        word = _LETTERS.sub("", re.split(r"[/#:]", said.strip().rstrip("/"))[-1].casefold())
        if kind := _KINDS.get(word):
            return kind
        if word.endswith(_SERVICES):
            return "service"
    return None
