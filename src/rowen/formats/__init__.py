"""What several rooms read: JSON, XML, RDF and character encodings. Nothing here knows connectors or documents."""
